"""The subscriptions of a broker's clients: judged, admitted or refused (paper 3, 3.4 and 4.3).

Rules
-----
* A subscription is asked for (`questions`). When all verdicts have arrived, its broker decides: at most a
  certain share of the brokers asked may refuse (4.3). Otherwise everything is released.
* A repeated registration of the same subscription is not judged again, and nothing is released for it.
* A filter of several clients is held once, with the highest priority that one of them gives it.
"""

from __future__ import annotations

from collections.abc import Container

from ..protocol.effects import Inform, Plain, Received
from ..protocol.ids import ClientId
from ..protocol.layers import Inward
from ..protocol.messages.admission import AdmissionConfig, GuaranteeStatus, Judgement, Refusal, WouldAdmit
from ..protocol.messages.pubsub import Cancel, Register
from ..routing.filters.filter import Filter
from .advertisements import LOCAL
from .books import Books
from .degradation import Degradation
from .questions import Out, Questions, Request, Shared, Takes


class Subscriptions:
    """The subscriptions of the clients that are attached to one broker.

    Parameters
    ----------
    config
        How many brokers may refuse.
    books, degradation
        The reservations, and what filters lack, shared with the other parts that change them.
    questions
        The requests to the neighbours.
    """

    def __init__(
        self, config: AdmissionConfig, books: Books, degradation: Degradation, questions: Questions
    ) -> None:
        self._config = config
        self._books = books
        self._degradation = degradation
        self._questions = questions
        self._mine: dict[ClientId, dict[int, Filter]] = {}
        self._wanting: dict[Filter, dict[tuple[ClientId, int], int]] = {}  # the priorities
        self._requests: dict[tuple[ClientId, int], Request] = {}
        self.takes: Takes = {
            Register: self._on_register,
            Cancel: self._on_cancel,
            WouldAdmit: self._on_would_admit,
        }

    def _on_register(self, source: ClientId, message: Register) -> Out:
        """Judge a client's subscription. One that was admitted elsewhere, or here before, only has to be recorded."""
        item, key = message.filter, (source, message.subscription)
        out: Out = []
        known = self._mine.get(source, {}).get(message.subscription)
        waiting = self._requests.get(key)
        if known == item and waiting is not None:
            waiting.register = message  # repeated over another connection; the judgement is in progress
            return []
        if known is not None and known != item:
            out += self._on_cancel(source, Cancel(message.subscription))
        self._mine.setdefault(source, {})[message.subscription] = item
        self._wanting.setdefault(item, {})[key] = message.priority
        request = Request(LOCAL, message.subscription, item, source, message)
        self._requests[key] = request
        if message.admitted or known == item:
            self._books.hold(item, LOCAL, self._highest(item))
            return out + self._questions.demand_all(item, LOCAL) + self._questions.finish(request)
        return out + self._judge(request, message, self._highest(item))

    def _judge(self, request: Request, message: Register | WouldAdmit, held_with: int) -> Out:
        """Ask for a filter, and then, where it is held by now, how long its events wait."""
        request.open += 1
        out = self._questions.begin(request, message.priority, held_with)
        if message.max_delay is not None and not request.refusals:
            out += self._questions.ask_delay(request, message.max_delay, dry=request.dry)
        request.open -= 1
        return out + self._questions.finish(request)

    def _highest(self, item: Filter) -> int:
        return max(self._wanting[item].values())

    def _on_cancel(self, source: ClientId, message: Cancel) -> Out:
        known = message.subscription in self._mine.get(source, ())
        out = self._cancel(source, message.subscription) if known else []
        return [*out, Inward(Received(source, message))]

    def detach(self, client: ClientId) -> Out:
        """Release everything that a client wants."""
        return [out for number in list(self._mine.get(client, ())) for out in self._cancel(client, number)]

    def leave_only(self, client: ClientId, numbers: Container[int]) -> Out:
        """Cancel all subscriptions of a client but these, also those that wait for their verdict."""
        gone = [number for number in self._mine.get(client, ()) if number not in numbers]
        return [out for number in gone for out in self._cancel(client, number)]

    def _cancel(self, client: ClientId, number: int) -> Out:
        request = self._requests.pop((client, number), None)
        if request is not None:
            request.gone = True
        return self._let_go(client, number)

    def _let_go(self, client: ClientId, number: int) -> Out:
        item = self._mine[client].pop(number)
        if not self._mine[client]:
            del self._mine[client]
        wanting = self._wanting[item]
        del wanting[client, number]
        if not wanting:
            del self._wanting[item]
            return self._questions.drop(item, LOCAL)
        if item not in self._books.held[LOCAL]:
            return []
        self._books.hold(item, LOCAL, self._highest(item))
        return self._questions.demand_anew(item)

    def _on_would_admit(self, source: ClientId, message: WouldAdmit) -> Out:
        """Ask what the judgement of a subscription would be, and reserve nothing."""
        request = Request(LOCAL, message.number, message.filter, source, dry=True)
        return self._judge(request, message, message.priority)

    def decide(self, request: Request) -> Out:
        """Admit or refuse a request whose verdicts have all arrived."""
        assert request.client is not None
        client, number = request.client, request.token
        refusals = tuple(dict.fromkeys(request.refusals))
        admitted = self._admits(request.asked, refusals)
        out: Out = [Inform(client, Judgement(number, admitted, request.asked, refusals, request.dry))]
        if request.dry:
            return out
        del self._requests[client, number]
        assert request.register is not None
        if not admitted:
            return out + self._let_go(client, number)
        lacking = self._degradation.of_clients(request.filter)
        if lacking:
            out.append(Inform(client, GuaranteeStatus(number, lacking)))
        return [*out, Inward(Received(client, request.register))]

    def _admits(self, asked: int, refusals: tuple[Refusal, ...]) -> bool:
        """Return the decision (4.3). A broker that lacks two resources counts as one refusal.

        A delay is that of the whole way, whatever share of brokers may lack something.
        """
        share = self._config.refusing_share_max
        if any(refusal.resource == "delay" for refusal in refusals):
            return False
        return share is None or len({refusal.broker for refusal in refusals}) <= share * asked

    # Guarantees.

    def tell_owners(self, item: Filter) -> Out:
        """Tell the clients that were admitted with a filter what it lacks now."""
        lacking = self._degradation.of_clients(item)
        return [
            Inform(client, GuaranteeStatus(number, lacking))
            for client, number in self._wanting.get(item, ())
            if (client, number) not in self._requests
        ]

    def lacking(self, client: ClientId) -> dict[int, tuple[Refusal, ...]]:
        """Return what the subscriptions of a client lack, by number. Those that lack nothing are omitted."""
        found = {
            number: self._degradation.of_clients(item)
            for number, item in self._mine.get(client, {}).items()
            if (client, number) not in self._requests
        }
        return {number: refusals for number, refusals in found.items() if refusals}

    # Snapshots.

    def snapshot(self, requests: Shared[Request]) -> dict[str, Plain]:
        """Return what clients want. Requests are added to those that other parts share."""
        return {
            "mine": {client: dict(items) for client, items in self._mine.items()},
            "wanting": [(item, list(who.items())) for item, who in self._wanting.items()],
            "open": [(key, requests.number(each)) for key, each in self._requests.items()],
        }

    def restore(self, plain: dict[str, Plain], requests: list[Request]) -> None:
        """Restore the subscriptions of a snapshot."""
        self._mine = {client: dict(items) for client, items in plain["mine"].items()}
        self._wanting = {
            item: {tuple(key): priority for key, priority in who} for item, who in plain["wanting"]
        }
        self._requests = {tuple(key): requests[number] for key, number in plain["open"]}

    def check(self) -> None:
        """Assert that what is held for clients is what they want; for tests."""
        assert set(self._books.held[LOCAL]) <= set(self._wanting)
        assert all(items for items in self._wanting.values())
