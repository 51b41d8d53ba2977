# The round in Ruby, with the gem pg.
require "json"
require "pg"

db = PG.connect
db.type_map_for_results = PG::BasicTypeMapForResults.new(db)
one = ->(sql, values) { db.exec_params(sql, values).getvalue(0, 0) }

db.exec_params("select pgmq.create($1)", ["shop"])
first = one.call("select pgmq.send($1, $2::jsonb)", ["shop", { to: "Łukasz", n: 1 }.to_json])
batch = PG::TextEncoder::Array.new.encode([{ n: 2 }.to_json, { n: 3 }.to_json])
rest = db.exec_params("select id from pgmq.send_batch($1, $2::jsonb[]) as id", ["shop", batch]).column_values(0)
taken = db.exec_params("select msg_id, message::text from pgmq.read($1, $2, $3)", ["shop", 30, 2]).to_a
archived = one.call("select pgmq.archive($1, $2::bigint)", ["shop", taken[0]["msg_id"]])
deleted = one.call("select pgmq.delete($1, $2::bigint)", ["shop", taken[1]["msg_id"]])
popped = one.call("select msg_id from pgmq.pop($1)", ["shop"])
puts({
  sent: [first, *rest],
  read: taken.map { |row| row["msg_id"] },
  to: JSON.parse(taken[0]["message"])["to"],
  archived: archived,
  deleted: deleted,
  popped: popped,
}.to_json)
db.close
