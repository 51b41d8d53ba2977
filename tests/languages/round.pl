# The round in Perl, with DBD::Pg.
use strict;
use warnings;
use utf8;
use DBI;
use JSON::PP;

my $db = DBI->connect("dbi:Pg:", "", "", { RaiseError => 1, PrintError => 0, AutoCommit => 1 });
my $json = JSON::PP->new->canonical;
sub one { my ($sql, @values) = @_; return ($db->selectrow_array($sql, undef, @values))[0]; }

one("select pgmq.create(?)", "shop");
my $first = one("select pgmq.send(?, ?::jsonb)", "shop", $json->encode({ to => "Łukasz", n => 1 }));
my $batch = [map { $json->encode({ n => $_ }) } 2, 3];
my $rest = $db->selectcol_arrayref("select id from pgmq.send_batch(?, ?::jsonb[]) as id", undef, "shop", $batch);
my $taken = $db->selectall_arrayref("select msg_id, message from pgmq.read(?, ?, ?)", undef, "shop", 30, 2);
my $archived = one("select pgmq.archive(?, ?::bigint)", "shop", $taken->[0][0]);
my $deleted = one("select pgmq.delete(?, ?::bigint)", "shop", $taken->[1][0]);
my $popped = one("select msg_id from pgmq.pop(?)", "shop");

binmode STDOUT, ":utf8";
print $json->encode({
    sent     => [map { $_ + 0 } $first, @$rest],
    read     => [map { $_->[0] + 0 } @$taken],
    to       => $json->decode($taken->[0][1])->{to},
    archived => $archived ? JSON::PP::true : JSON::PP::false,
    deleted  => $deleted  ? JSON::PP::true : JSON::PP::false,
    popped   => $popped + 0,
}), "\n";
$db->disconnect;
