// A page that speaks STOMP by @stomp/stompjs; the broker's address stands in the query of its own.
const json = { "content-type": "application/json" };
const client = new StompJs.Client({
  brokerURL: location.search.slice(1),
  connectHeaders: { login: "alice", passcode: "token-of-alice" },
});
const tell = (what) => client.publish({ destination: "/told", headers: json, body: JSON.stringify(what) });
client.onStompError = (frame) => { document.title = frame.body; };
client.onConnect = () => {
  client.watchForReceipt("subscribed", () => {
    const transaction = client.begin();
    const inside = { ...json, transaction: transaction.id };
    client.publish({ destination: "/topic/page", headers: inside, body: JSON.stringify({ price: 9 }) });
    client.publish({ destination: "/topic/page", headers: inside, body: JSON.stringify({ price: 11, who: "Zoë" }) });
    transaction.commit();
  });
  client.subscribe("/topic/page", (message) => {
    message.ack();
    tell({ version: client.connectedVersion, got: message.body });
  }, { selector: "price > 10", ack: "client-individual", receipt: "subscribed" });
};
client.activate();
