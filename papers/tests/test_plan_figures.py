"""The pictures of forecasts say what the numbers say."""

import numpy as np

from papers.plan_figures import Gain, who_gains


def test_who_gains_counts_owners_above_the_joint_line():
    gain = Gain(
        title="ε = 1, 2 partners",
        sizes=np.array([10, 100, 1000]),
        own_predicted=np.array([0.3, 0.1, 0.01]),
        own_measured=np.array([0.2, 0.02, 0.01]),
        joint_predicted=0.05,
        joint_interval=(0.02, 0.1),
        joint_measured=0.04,
    )
    assert gain.counts == (2, 1)
    figure = who_gains([[gain, gain]], "who")
    figure.canvas.draw()  # lays everything out; warnings are errors
    assert len(figure.axes) == 2
    assert "2 predicted to gain, 1 do" in figure.axes[0].get_title()
