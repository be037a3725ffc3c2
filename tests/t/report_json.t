#!/usr/bin/perl
# The JSON of a report is JSON to others too, and `sparseshim report` prints it as the text the job would have printed.
use strict;
use warnings;
use File::Temp qw(tempdir);
use JSON::PP;
use Test::More;

my $build = $ENV{BUILD} // 'build';
my $dir = tempdir(CLEANUP => 1);

sub output {
    my @command = @_;
    open my $pipe, '-|', @command or die "$command[0]: $!";
    local $/;
    my $text = <$pipe> // '';
    close $pipe;
    return $text;
}

my $json = output("$build/tests/unit/test_report", 'json');
my $text = output("$build/tests/unit/test_report", 'text');
is $?, 0, 'the sample is written';

my $report = eval { JSON::PP->new->utf8->decode($json) };
is $@, '', 'a strict reader takes the report';
is $report->{schema}, 1, 'the schema is named';
is $report->{job}{program}, "odd \"name\" \x01 ? \x{e9}", 'an odd name arrives';
is $report->{calls}{seen}, 1010, 'calls are plain numbers';
is $report->{times}{seconds_allreduce}, 15, 'times are in seconds';
is $report->{times}{share_allreduce}, 0.25, 'f is a fraction';
is scalar @{$report->{lanes}}, 2, 'every lane is there';
is $report->{lanes}[0]{communicator}, 'MPI_COMM_WORLD', 'the largest lane is first';
is $report->{lanes}[0]{bytes_dense}, 25165824000, 'bytes are whole';
is $report->{lanes}[1]{density_sum}, undef, 'what is not a number is null';
is $report->{lanes}[0]{passed}{observe}, 1000, 'reasons have short names';
is $report->{advice}[0]{try}, 'SPARSESHIM_MODE=exact', 'the advice is in it';
is scalar @{$report->{predictions}}, 18, 'so is every prediction';
is scalar @{$report->{tensors}}, 4, 'every tensor is there';
is $report->{tensors}[0]{residual_ratio}, 2.5, 'with the ratio of residual to input';
is scalar(@{$report->{tensors}[0]{series}{call}}), 75, 'a series has points at even distances';
is $report->{tensors}[0]{series}{call}[-1], 297, 'to the last';
is $report->{tensors}[1]{series}, undef, 'or there is none';
is $report->{tensors}[1]{reason}, 'average', 'with the reason why it stays exact';

my $file = "$dir/report.json";
open my $out, '>:raw', $file or die "$file: $!";
print $out $json;
close $out or die "$file: $!";
is output("$build/sparseshim", 'report', $file), $text, 'sparseshim report prints the same text';
is $?, 0, 'and succeeds';

my (%told, $group);
for (split /\n/, output("$build/sparseshim", 'report', '--legend')) {
    if (/^(\S.*?)(?: \("(\w+)" in JSON\))?$/) { $group = $2 // $1 }
    elsif (/^  (?! )(.*?)(?:, in JSON|, in the text)?(?:, with --all)?$/) { my $name = $1; $told{$group}{$name =~ /\((\w+)\)$/ ? $1 : $name} = 1 }
}
my @untold = grep { !ref $report->{$_} && !$told{'The document'}{$_} } keys %$report;
for my $part (grep { ref $report->{$_} } keys %$report) {
    my @rows = ref $report->{$part} eq 'ARRAY' ? @{$report->{$part}} : $report->{$part};
    push @untold, map { "series.$_" } grep { !$told{series}{$_} } map { keys %{$_->{series} || {}} } @rows;
    push @untold, map { "$part.$_" } grep { !$told{$part}{$_} } map { keys %$_ } @rows;
}
is "@untold", '', 'report --legend explains every key';

my ($all, $main) = map { output("$build/sparseshim", 'report', @$_, $file) } ['--all'], [];
unlike $main, qr/^ +tensor +.*(?:watched|ordinal|off k)/m, 'what is rarely useful is left out';
like $all, qr/^ +tensor +watched +alike /m, 'and is there with --all';

truncate $file, length($json) / 2 or die "$file: $!";
my $message = output('sh', '-c', '"$1" report "$2" 2>&1', 'sh', "$build/sparseshim", $file);
isnt $?, 0, 'half a report is refused';
like $message, qr/\Q$file\E.*line \d+, column \d+/, 'with file, line and column';

my $log = output('sh', '-c', '"$1" locale 2>&1', 'sh', "$build/tests/unit/test_report");
SKIP: {
    skip 'no locale with a decimal comma is installed (tried de_DE, fr_FR, ps_AF)', 1
        if $? >> 8 == 77;
    is $?, 0, 'a locale with a decimal comma changes nothing' or diag $log;
}

done_testing;
