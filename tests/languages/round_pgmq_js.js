// The round in Node, with pgmq's client `pgmq-js`, unchanged.
const { Pgmq } = require("pgmq-js");

async function main() {
    const { PGHOST: host, PGUSER: user, PGDATABASE: database } = process.env;
    const pgmq = await Pgmq.new({ host, user, database, ssl: false }, { skipExtensionCreation: true });

    await pgmq.queue.create("shop");
    const first = await pgmq.msg.send("shop", { to: "Łukasz", n: 1 });
    const rest = await pgmq.msg.sendBatch("shop", [{ n: 2 }, { n: 3 }]);
    const taken = await pgmq.msg.readBatch("shop", 30, 2);
    const archived = await pgmq.msg.archive("shop", taken[0].msgId);
    const deleted = await pgmq.msg.delete("shop", taken[1].msgId);
    const popped = await pgmq.msg.pop("shop");
    console.log(JSON.stringify({
        sent: [first, ...rest].map(Number),
        read: taken.map((message) => Number(message.msgId)),
        to: taken[0].message.to,
        archived,
        deleted,
        popped: Number(popped.msgId),
    }));
    await pgmq.close();
}

main();
