#!/usr/bin/perl
# Every table of scripts/results.md says how to have it again: a command that is there and takes what is asked of
# it, and a tolerance. Run from the repository root.
use strict;
use warnings;
use Cwd qw(abs_path);
use File::Temp qw(tempdir);
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

# Returns a script's answer to --help.
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
        my ($target, @settings) = @arguments;
        my $rules = join '', map { slurp($_) } 'Makefile', 'gpu/gpu.mk', 'tests/tests.mk';
        return 'no such target' if $rules !~ /^\Q$target\E:/m;
        my $of_target = $target eq 'bench' ? 'BENCH_PARTS' : 'MORE_PARTS';
        my ($parts) = $rules =~ /^$of_target := (.*)$/m;
        my @unknown = grep { my ($part) = /^PART=(.*)/; $part && " $parts " !~ / \Q$part\E / } @settings;
        return @unknown ? "no such @unknown" : '';
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
like(starts('make bench-topk'), qr/no such target/, 'and a target');
like(starts('make bench PART=abi'), qr/no such PART=abi/, 'and a part of one');

# So do the commands of make in other texts and in scripts.
my @texts = split /\n/, `git ls-files README.md '*.md' scripts tests/t shim/cli 2>/dev/null`;
my %made = map { $_ => 1 } map { slurp($_) =~ /\bmake(?: |\n# )((?:check|bench|gpu)[a-z-]*\b(?!-)(?: PART=\w+)?)/g }
    grep { -f && !/results\.t$/ } @texts;
is(starts("make $_"), '', "make $_") for sort keys %made;

# Pictures are there, each under its command, and readers see them.
my @pictures = $text =~ /!\[[^\]]*\]\(([^)]+)\)/g;
is(join(' ', sort @pictures), join(' ', map { s{^scripts/}{}r } sort glob 'scripts/*.svg'), 'every picture is shown');
sub parses { return system('python3', '-c', 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])', $_[0]) == 0 }
my $out = tempdir(CLEANUP => 1);
my $draws = grep { -x "$_/rsvg-convert" } split /:/, $ENV{PATH};
for my $picture (@pictures) {
    ok(parses("scripts/$picture"), "$picture is XML");
  SKIP: {
        skip 'rsvg-convert is missing (librsvg2-bin): pictures are not drawn', 1 if !$draws;
        my $drawn = system('rsvg-convert', '-o', "$out/$picture.png", "scripts/$picture");
        ok($drawn == 0 && (-s "$out/$picture.png" // 0) > 10_000, "$picture can be drawn, and is no empty sheet");
    }
}
my %legend = map { $_ => 1 } slurp('scripts/loss.svg') =~ /<title>([^<]*)</g;
is(join(', ', grep { !/gnuplot/i } sort keys %legend), '16 bits, dense, top-k 1 %', 'loss.svg names its curves in words');

# A benchmark takes down the cluster that it has made, and calls for none where it makes none.
sub asks_of_cluster {
    my ($commands) = @_;
    my $dir = tempdir(CLEANUP => 1);
    mkdir "$dir/scripts";
    symlink abs_path('scripts/bench.sh'), "$dir/scripts/bench.sh";
    open my $fake, '>', "$dir/scripts/vcluster" or die $!;
    print $fake qq(#!/bin/sh\necho "\$1" >>'$dir/asked'\n);
    close $fake;
    chmod 0755, "$dir/scripts/vcluster";
    system 'sh', '-c', "cd '$dir' && BUILD=build VCLUSTER_PREFIX=none bash -c '. scripts/bench.sh; $commands'";
    return -e "$dir/asked" ? join ' ', split /\n/, `cat '$dir/asked'` : 'nothing';
}
is(asks_of_cluster('true'), 'nothing', 'a benchmark without a cluster takes none down');
is(asks_of_cluster('cluster 2 100mbit; exit 1'), 'up down', 'one with a cluster does, also when it fails');
done_testing();
