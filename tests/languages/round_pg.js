// The round in Node, with the driver `pg`.
const { Client } = require("pg");

async function main() {
    const db = new Client();
    await db.connect();
    const one = async (sql, values) => Object.values((await db.query(sql, values)).rows[0])[0];

    await db.query("select pgmq.create($1)", ["shop"]);
    const first = await one("select pgmq.send($1, $2::jsonb)", ["shop", { to: "Łukasz", n: 1 }]);
    const batch = [{ n: 2 }, { n: 3 }].map((message) => JSON.stringify(message));
    const rest = await db.query("select id from pgmq.send_batch($1, $2::jsonb[]) as id", ["shop", batch]);
    const taken = await db.query("select msg_id, message from pgmq.read($1, $2, $3)", ["shop", 30, 2]);
    const archived = await one("select pgmq.archive($1, $2::bigint)", ["shop", taken.rows[0].msg_id]);
    const deleted = await one("select pgmq.delete($1, $2::bigint)", ["shop", taken.rows[1].msg_id]);
    const popped = await one("select msg_id from pgmq.pop($1)", ["shop"]);
    console.log(JSON.stringify({
        sent: [first, ...rest.rows.map((row) => row.id)].map(Number),
        read: taken.rows.map((row) => Number(row.msg_id)),
        to: taken.rows[0].message.to,
        archived,
        deleted,
        popped: Number(popped),
    }));
    await db.end();
}

main();
