"""The walk of a SEND in docs/architecture.md names the files of the gateway that are entered, and no others."""

from walks import files_entered, steps_of, walk_in_docs


def test_the_walk_of_a_send_names_the_files_that_are_entered(served):
    found = []

    async def work(client, core):
        alice = await client().connect()
        await alice.publish(price=11, symbol="A")
        with files_entered() as files:
            await alice.publish(price=12, symbol="A")
        found.extend(steps_of(files))
        await alice.ask("DISCONNECT")

    served(work)
    assert sorted(set(walk_in_docs("A SEND of STOMP"))) == sorted(found), (
        f"the walk is now: {', '.join(found)}"
    )
