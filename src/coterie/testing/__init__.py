"""The contract suite: measures a protocol of your own as the nine that come with coterie are measured.

    from coterie.testing import check_protocol

    def test_my_protocol():
        check_protocol(my_protocol.build, my_protocol.Settings(rounds=6))

May know everything below the command line and experiments; nothing imports it.
"""

from coterie.testing.contract import Measured, check_protocol
from coterie.testing.failure import ContractError
from coterie.testing.leaks import Replay
from coterie.testing.world import World, small_world

__all__ = ["ContractError", "Measured", "Replay", "World", "check_protocol", "small_world"]
