#!/usr/bin/perl
# Every table of scripts/results.md says how to have it again: a command that is there and takes what is asked of
# it, and a tolerance. Run from the repository root.
use strict;
use warnings;
use Test::More;

sub slurp {
    my ($path) = @_;
    open my $in, '<', $path or die "$path: $!";
    local $/;
    return scalar(<$in>) // '';
}

my $text = slurp('scripts/results.md');
my @lines = split /\n/, $text;
my @tables;    # [line number, heading, rows, the line above]
for my $i (1 .. $#lines) {
    next if $lines[$i] !~ /^\|/ || $lines[$i - 1] =~ /^\|/;
    my $end = $i;
    $end++ while $end < $#lines && $lines[$end + 1] =~ /^\|/;
    my $above = $i - 1;
    $above-- while $above > 0 && $lines[$above] eq '';
    push @tables, [$i + 1, $lines[$i], [@lines[$i + 2 .. $end]], $lines[$above]];
}
cmp_ok(scalar @tables, '>', 15, 'tables are found: ' . @tables);

sub cells { return map { s/^\s+|\s+$//gr } split /(?<!\\)\|/, $_[0] =~ s/^\|//r, -1 }

# What a script answers when it is asked for something that it does not have, or for help.
my %answer;
sub answer_of {
    my ($script) = @_;
    $answer{$script} //= `timeout -k 5 30 $script --help 2>&1 </dev/null`;
    return $answer{$script};
}

# A command starts: the script is there, and knows each part or option.
sub starts {
    my ($command) = @_;
    my ($script, @arguments) = split ' ', $command =~ s/^(?:[A-Z_]+=(?:'[^']*'|\S+) +)+//r;
    if ($script eq 'make') {
        return 'no such target' if slurp('Makefile') !~ /^\Q$arguments[0]\E:/m;
        return '';
    }
    return 'no script of ours' if $script !~ m{^scripts/[a-z-]+$};
    return 'not there' if !-x $script;
    my $answer = answer_of($script);
    my @unknown;
    while (defined(my $word = shift @arguments)) {
        my ($name) = $word =~ /^([^=]+)/;
        next if $name =~ /^\d+:/;    # RANKS:SKEW:BYTES
        push @unknown, $name if $answer !~ /(?<![\w-])\Q$name\E(?![\w-])/;
        shift @arguments if $name =~ /^--/ && $answer =~ /\Q$name\E [A-Z]+\b/;
    }
    return @unknown ? "does not know @unknown" : '';
}

for my $table (@tables) {
    my ($line, $head, $rows, $above) = @$table;
    my ($again, $tolerance) = $above =~ /^Again: (.+); tolerance: (.+)\.$/;
    ok($tolerance, "line $line: a tolerance") or diag($above);
    my @titles = cells($head);
    my ($column) = grep { $titles[$_] eq 'command' } 0 .. $#titles;
    if (($again // '') eq 'the command of each row') {
        ok(defined $column, "line $line: a column of commands") or next;
        ok((cells($_))[$column] =~ /`[^`]+`/, "line $line: " . (cells($_))[0]) for @$rows;
    } else {
        like($again // '', qr/^`[^`]+`(?: and `[^`]+`)*$/, "line $line: commands");
        ok(!defined $column, "line $line: and no others");
    }
    for my $row (@$rows) {
        is(scalar cells($row), scalar @titles, "line $line: as many cells as titles") or diag($row);
    }
}

my %commands = map { $_ => 1 } $text =~ /`((?:[A-Z_]+=(?:'[^']*'|\S+) +)*(?:scripts\/[a-z-]+|make)\b[^`]*)`/g;
cmp_ok(scalar keys %commands, '>', 25, 'commands are found: ' . keys %commands);
is(starts($_), '', $_) for sort keys %commands;
like(starts('scripts/bench-exact nothing'), qr/does not know nothing/, 'a part that is not there would be found');
like(starts('scripts/plots --alhpa 1us map'), qr/does not know --alhpa/, 'so would an option');
like(starts('scripts/none'), qr/not there/, 'and a script');

# Pictures are there, each under its command.
for my $picture ($text =~ /!\[[^\]]*\]\(([^)]+)\)/g) {
    ok(-s "scripts/$picture", "the picture $picture");
}
done_testing();
