# %% [markdown]
# # Tutorial: from a table to a model with a promise
#
# Everything that the command line does can be done in Python. This page is a notebook too:
# [tutorial.ipynb](../examples/tutorial.ipynb). It takes a minute and uses made-up rows alone.
#
# ## A table of several owners
#
# Six hospitals want to know who will be back within a month. Rows are in memory here; a file's path would do.

# %%
import numpy as np
import pandas as pd

rng = np.random.default_rng(1)
rows = 3000
names = ["Castle", "Eastside", "Lakeview", "Northgate", "Riverside", "Summit"]
visits = pd.DataFrame(
    {
        "hospital": rng.choice(names, rows, p=[0.05, 0.1, 0.1, 0.15, 0.25, 0.35]),
        "age": rng.integers(18, 96, rows),
        "stay": rng.integers(1, 31, rows),
    }
)
risk = 0.05 * (visits["age"] - 60) + 0.1 * (visits["stay"] - 12)
visits["again"] = np.where(risk + rng.logistic(0, 1, rows) > 0, "yes", "no")
visits["hospital"].value_counts().sort_index()

# %% [markdown]
# ## Say what is public
#
# Ranges and classes, from what is known and not from the rows. `visits["age"].max()` would be somebody's age.

# %%
import coterie

public = {"target": "again", "classes": ["no", "yes"], "columns": {"age": [0, 120], "stay": [0, 60]}}
experiment = coterie.Experiment(
    data=visits, owner_column="hospital", columns=public, epsilon=1.0, settings={"rounds": 30}
)
result = coterie.run(experiment)
print(f"joint model {result.joint:.2f}")

# %% [markdown]
# ## What it cost
#
# One certificate for each owner: an upper bound on ε for everything that left it.

# %%
for certificate in result.certificates[:2]:
    print(certificate)

# %% [markdown]
# The same as a sentence for people:

# %%
print(result.guarantee["promise"][0])

# %% [markdown]
# ## Predict
#
# The model describes itself, and is one file.

# %%
result.model.save("visits.safetensors")
model = coterie.load("visits.safetensors")
model.predict(pd.DataFrame({"age": [25, 90], "stay": [2, 28]})).tolist()

# %% [markdown]
# ## Two budgets beside each other
#
# A tenth of the budget needs ten times the noise. What that costs depends on how many records there are.

# %%
from dataclasses import replace

for epsilon in (0.1, 1.0):
    again = coterie.run(replace(experiment, epsilon=epsilon))
    print(
        f"ε = {epsilon}: {again.joint:.2f}, certified ≤ {max(one.epsilon for one in again.certificates):.3g}"
    )

# %% [markdown]
# These accuracies are *oracle* numbers: computed from private rows, for your eyes. Choosing a budget by them would be
# [a release that nobody charged](pitfalls.md#choosing-by-private-results).
#
# ## An accountant for anything
#
# What would 100 releases with Gaussian noise of ten times the clip norm cost?

# %%
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

coterie.certify(SelfComposedDpEvent(GaussianDpEvent(10.0), 100), delta=1e-5).epsilon

# %% [markdown]
# Twice the noise pays for four times as many releases: more in [accountant](accountant.md). Go on with
# [estimators for scikit-learn](python.md), or [a protocol of your own](do/protocol.md).
