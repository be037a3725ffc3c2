#!/usr/bin/perl
# Every message that a user can get stands in sparseshim.conf(5), section MESSAGES, with its cause and what to do. The
# formats are taken from the source: the texts of calls that warn or raise an error, and all other texts of five words
# and more. Run from the repository root.
use strict;
use warnings;
use Test::More;

# Texts of options, of reports, at DEBUG=info and of the command are described elsewhere.
my $elsewhere = qr{^shim/(?:cli|simulate)/|^shim/job/trace_text\.c$|^core/sim/|^config/(?:table|removed)\.c$|^core/call/decisions\.c$|^core/report/(?:summary|report)};

# Their first text is a message, or with "%s" alone one that is made elsewhere.
my %tells = map { $_ => 1 } qw(shim_say cfg_say complain refuse shim_raise ss_topk_warn);

# The text that a function puts before its messages.
my %before = (
    complain     => "SPARSESHIM_%s: rule %zu, '%.*s%s', character %zu: ",
    ss_topk_warn => 'lossy: %llu %s called from %s on %s: ',
);

# Texts that are no message of their own, each with where it is part of one.
my @parts = (
    '%s%s; every call passes through%s',                      # the end of those of refuse()
    ', and no report is written',                             # the end of those of refuse()
    '%llu of %llu calls ',                                    # a report
    'rank %d\\nranks %d',                                     # a record of MODE=learn
    'rule %zu, ',                                             # the beginning of those of complain()
    'lossy: %llu %s called from %s on %s: ',                  # the beginning of those of ss_topk_warn()
    "'%s' (MIN_COUNT=%llu leaves so small calls alone",       # the end of "no call of rank 0 matched"
    ', but for nonblocking ones among larger ones',           # the same
    '; %zu more on this communicator',                        # the end of "ends with a residual"
    '; SPARSESHIM_GUARD=exact would make it exact',           # the end of those of the guard
    '; it is exact from here on',                             # the same
    '; every call passes through until the site corrects it', # the end of those of a policy
    'names of options but DISABLE, separated by blanks',      # the end of "... = is not allowed"
    ', separated by blanks, or none alone',                   # the same
    'does every rank make the same call next',                # the end of "rank ...: timeout in the ..."
    ' with calls=N in a rule',                               # the end of "SPARSESHIM_... needs"
    '=q4, or MODE=quant, to send less',                      # the same
    'no memory on the host',                                  # the end of "a buffer in device memory cannot be copied: ..."
    ", if that came before the program's own operators",       # the end of "FUNCTION with a buffer in device memory, ..."
    'a byte of the file that this is linked into',            # not a message
    'not looked for: it is not known where this is',          # sparseshim info
    '; Open MPI\'s mpirun hands a variable to other hosts by -x NAME', # the end of "... must be equal ..."
    ' (SPARSESHIM_TIMEOUT has ended the wait)',               # the end of "... has waited ..."
    ', waiting for or talking to rank %d',                    # the end of "rank ...: ... in the ..."
    'measured in its first call',                             # DEBUG=info
    'it is not known where this library lies',                # "the program uses CUDA, but ..."
    'buffers in device memory as they are',                   # the same
    '%s belongs to another version of this library',          # the same
    'it is neither a regular file nor a character device',    # "... cannot be written: ..."
    'it has a second name (a hard link)',                     # the same
    'it is not a regular file',                               # the same
    'it belongs to another user',                             # the same
    'its file in REPORT_DIR cannot be written',               # the end of "... records no further calls"
    'it needs a directory, REPORT_DIR; `sparseshim learn`',   # the same
    'the path in REPORT_DIR is too long',                     # the same
    'the path is too long',                                   # the same
    '; the file\'s last line is not whole',                   # the end of "... lacks ... events"
    'more than %d calls at the same time',                    # the same
    'the file has reached %u MiB',                            # the same
    'look like gradients and stay exact (SPARSESHIM_REGISTER',    # the same
    'SPARSESHIM_%s=%s is not allowed (allowed: %s)',          # sparseshim run
    'the policy of sparseshim.conf (%s on rank %d)',          # "... must be equal on all ranks and is not"
    'SPARSESHIM_TEST (set otherwise on rank %d)',             # the same
);

# Lists of reasons that stand in messages and in the report: the manual has what they mean for top-k.
my %reasons = map { $_ => 1 } qw(core/tensor/registration.c core/report/stats.c);

sub slurp {
    my ($path) = @_;
    open my $in, '<', $path or die "$path: $!";
    local $/;
    return scalar(<$in>) // '';
}

# The source without comments, with macros of texts in their places.
sub source {
    my $text = slurp($_[0]);
    $text =~ s{/\*.*?\*/}{}gs;
    $text =~ s/\\\n//g;
    my %macro = (CFG_PREFIX => '"SPARSESHIM_"');
    my $literal = qr/"(?:[^"\\\n]|\\.)*"/;
    $macro{$1} = $2 while $text =~ /^#define ([A-Z_]+)\s+($literal(?:\s*$literal)*)\s*$/mg;
    $text =~ s/^#.*$//mg;
    $text =~ s/($literal)|\b([A-Z_]+)\b/defined $1 ? $1 : $macro{$2} \/\/ $2/ge;
    return $text;
}

# The function whose argument stands behind the text, and the arguments before it.
sub call_before {
    my ($text) = @_;
    my $depth = 0;
    for (my $i = length($text) - 1; $i >= 0; $i--) {
        my $c = substr($text, $i, 1);
        last if $c =~ /[;{}]/ && $depth == 0;
        $depth++ if $c eq ')';
        next if $c ne '(' || $depth-- > 0;
        return (substr($text, 0, $i) =~ /(\w+)\s*$/ ? $1 : '', substr($text, $i + 1));
    }
    return ('', '');
}

# Conversions and what the manual has in italics become "...".
sub plain {
    my ($format) = @_;
    $format =~ s/%%/\0/g;
    $format =~ s/%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|z)?[a-zA-Z]/.../g;
    $format =~ s/(?:\.\.\.)+/.../g;
    $format =~ s/\0/%/g;
    $format =~ s/\\n$//;
    $format =~ s/\\"/"/g;
    return $format;
}

# [file, text] of each message.
my @messages;
for my $file (grep { $_ !~ $elsewhere } sort map { glob } 'config/*.c', 'core/*/*.c', 'shim/*/*.c') {
    my $text = source($file);
    while ($text =~ /((?:"(?:[^"\\\n]|\\.)*"\s*)+)/g) {
        my ($literals, $at) = ($1, $-[0]);
        my $said = join '', $literals =~ /"((?:[^"\\\n]|\\.)*)"/g;
        my ($call, $before) = call_before(substr($text, 0, $at));
        my $first = $tells{$call} && $before !~ /"/;
        $said =~ s/(?:%s)+$/%s is not known/ if $first && substr($text, $at) =~ /\A[^;]*CFG_NOT_KNOWN/; # cfg_not_known()
        next if substr($text, 0, $at) =~ /\.source\s*=\s*$/; # the paper of an algorithm
        next if $call eq '_Static_assert' || $before =~ /CFG_DEBUG_(?:INFO|TRACE)/ || $said eq '%s';
        next if !$first && (() = $said =~ /[A-Za-z]{2,}/g) < 5;
        next if $reasons{$file} && $call ne 'snprintf';
        next if !$first && ($said !~ / / || $file eq 'core/base/types.c');
        next if grep { index($said, $_) == 0 } @parts;
        $said = ($before{$call} // '') . $said if $first;
        push @messages, [$file, plain($said)];
    }
}
cmp_ok(scalar @messages, '>', 60, 'messages are found in the source: ' . @messages);

my ($section) = slurp('config/sparseshim.conf.5.in') =~ /^\.SH MESSAGES\n(.*?)^\.SH /ms;
my @entries = ($section // '') =~ /^\.TP\n(\\fB.*)\n/mg;
my %text_of;
for my $entry (@entries) {
    my $head = $entry;
    $head =~ s/\\fI[^\\]*(?=\\f)/.../g;
    $head =~ s/\\f[BRI]//g;
    $head =~ s/\\\(aq/'/g;
    $head =~ s/\\([-&])/$1 eq '-' ? '-' : ''/ge;
    $head =~ s/(?:\.\.\.)+/.../g;
    ok(!$text_of{$head}++, "one entry for: $head");
}

for my $message (@messages) {
    my ($file, $text) = @$message;
    my @found = grep { index($text, $_) == 0 } keys %text_of;
    ok(scalar @found, "$file: $text");
}
for my $head (sort keys %text_of) {
    ok(scalar(grep { index($_->[1], $head) == 0 } @messages), "said somewhere: $head");
    cmp_ok(scalar(() = $head =~ /[A-Za-z]{2,}/g), '>=', 2, "long enough to be found: $head");
}

# Each entry has a cause and a remedy.
for my $block (split /^\.TP\n/m, $section // '') {
    next if $block !~ /^\\fB(.*)\n/;
    my ($head, $rest) = ($1, $block);
    $rest =~ s/^.*\n//;
    $rest =~ s/^\.S[SH] .*//ms;
    cmp_ok(scalar(() = $rest =~ /[.?]$/mg), '>=', 1, "explained: $head");
    like($rest, qr/^Remedy: \S.*\.$/m, "with what to do: $head");
}

# The texts of the error class and of each status.
my ($statuses) = slurp('core/base/types.c') =~ /^const char \*ss_status_text.*?^}/msg ? $& : '';
my @status = grep { !/^(?:not finished|success|unknown status)$/ } $statuses =~ /return "([^"]+)"/g;
cmp_ok(scalar @status, '>=', 8, 'statuses are found');
for my $status (@status) {
    like($section // '', qr/^\.B \Q$status\E$/m, "the status '$status'");
}

done_testing();
