<?php
// The round in PHP, with PDO.
$db = new PDO("pgsql:", null, null, [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION]);

function rows(PDO $db, string $sql, array $values): array
{
    $statement = $db->prepare($sql);
    $statement->execute($values);
    return $statement->fetchAll(PDO::FETCH_NUM);
}

rows($db, "select pgmq.create(?)", ["shop"]);
[[$first]] = rows($db, "select pgmq.send(?, ?::jsonb)", ["shop", json_encode(["to" => "Łukasz", "n" => 1])]);
$batch = '{' . implode(',', array_map(fn ($n) => json_encode(json_encode(["n" => $n])), [2, 3])) . '}';
$rest = array_column(rows($db, "select id from pgmq.send_batch(?, ?::jsonb[]) as id", ["shop", $batch]), 0);
$taken = rows($db, "select msg_id, message from pgmq.read(?, ?, ?)", ["shop", 30, 2]);
[[$archived]] = rows($db, "select pgmq.archive(?, ?::bigint)", ["shop", $taken[0][0]]);
[[$deleted]] = rows($db, "select pgmq.delete(?, ?::bigint)", ["shop", $taken[1][0]]);
[[$popped]] = rows($db, "select msg_id from pgmq.pop(?)", ["shop"]);

echo json_encode([
    "sent" => [$first, ...$rest],
    "read" => array_column($taken, 0),
    "to" => json_decode($taken[0][1])->to,
    "archived" => $archived,
    "deleted" => $deleted,
    "popped" => $popped,
], JSON_UNESCAPED_UNICODE), "\n";
