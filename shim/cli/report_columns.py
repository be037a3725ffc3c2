"""Every key of the JSON of a report, and every column of its tables."""
from report_words import Group

PHASES = ("scan", "vote", "exchange", "merge", "coding", "native")

DOCUMENT = Group("", "The document", """
schema | | integer | | version of the form: raised when a key changes its meaning or is removed, not when a key is added
""")
SUMMARY = Group("summary", "The first lines", """
headline | | text | 1 | version of libsparseshim, program, rank, host, time of the job's first call, and its duration from then on
state | state | text | 1 | shown if the job had not ended when the report was written
calls | calls | text | 1 | calls of the collectives that the library wraps: made sparse, passed through, failed
bytes | bytes | text | 1 | bytes sent by this rank in eligible calls, against a dense collective; with several hosts and several ranks on one, those that left the host
lane_1 | sparse | text | 1 | the call signature of most bytes that has calls made sparse, and their algorithm
lane_2 | sparse | text | 1 | the second such call signature
lane_3 | sparse | text | 1 | the third such call signature
passed | passed | text | 1 | the reasons for which most calls were handed to the MPI library
topk | lossy | text | 1 | lossy modes: tensors that are lossy or exact; calls sent whole, in the width of VALUE_TYPE, or as top-k and the share that was sent of these
partial | partial | text | 1 | partial allreduces: rounds with this rank's gradient, and its late gradients
unsent | unsent | text | 1 | late gradients at the end, of which no round has sent anything
synchronous | waiting | text | 1 | other calls that make every step wait for all ranks
try_quorum | late | text | 1 | settings to try if gradients come too late
merged | merged | text | 1 | MERGE: nonblocking calls that voted and were sent together; with auto the time of a step in groups and with each call alone
time | time | text | 1 | time in the calls that the library wraps; f, their share of the job, bounds the gain
try_sums | sums | text | 1 | MODE=observe: call signatures that are dense, and the largest
try_exact | exact | text | 1 | MODE=observe: what MODE=exact would save, by the model's prediction
try_quant | quant | text | 1 | MODE=observe: what MODE=quant would save, should the buffers be gradients
try_topk | top-k | text | 1 | MODE=observe: what MODE=topk would save at DENSITY, should the buffers be gradients
try_network | delay | text | 1 | MODE=observe: shown if the time of dense calls is not that of the network
try | next | text | 1 | what to do next, in MODE=observe and where MODE=exact gains nothing
_phases | phases | text | 1 | time of eligible calls by phase, over all call signatures
_pace | pace | text | 1 | partial allreduces: time in them, time that the other ranks would have waited for this one, and processor time of the library's thread
_network | network | text | 1 | bytes sent by this rank to measure the network, once for each group of ranks
_memory | memory | text | 1 | most memory that libsparseshim had for residuals and work space
_outside | outside | text | 1 | bytes in buffers of calls without a call signature in this report, such as small ones
_tensor | tensor | text | 1* | the largest buffer reduced, and the share that it and others of its size have of the bytes reduced
_mpi | MPI | text | 1* | the MPI library
""")
JOB = Group("job", "The job", """
program | | text | | name of the program
hostname | | text | | host of this rank
rank | | rank | | rank in the world, -1 where it is not known
ranks | | rank | | ranks of the world, 0 where they are not known
version | | text | | of libsparseshim
mpi_library | | text | | what MPI_Get_library_version says
start | | text | | date and time of the first call that was looked at, UTC
start_unix | | integer | | the same in seconds since 1970
number | | text | | a number on which all ranks of this job have agreed in the first call that could be served; null: there was none
observe | | flag | | MODE is observe: nothing was changed, and the possible gain is predicted
complete | | flag | | the job has ended; false: the report is an interim one
""")
CALLS = Group("calls", "Calls", """
seen | | count | | calls of the collectives that are looked at, eligible or not
eligible | | count | | calls that could be served by their count, type, operator, buffers and communicator
sparse | | count | | calls made sparse
passed | | count | | calls handed to the MPI library; the reasons are in "passed"
nonblocking | | count | | nonblocking calls taken over
not_timed | | count | | nonblocking calls handed on, which end in waits that are not timed
errors | | count | | calls that returned an error of libsparseshim
tensors_unlisted | | count | | tensors that found no room in the report
""")
BYTES = Group("bytes", "Bytes", """
bytes_dense | | bytes | | bytes that a dense collective would have sent from this rank, over all eligible calls
bytes_sent | | bytes | | bytes sent by this rank in these calls, votes included
ratio | | factor | | bytes_dense / bytes_sent
bytes_dense_inside | | bytes | | those of bytes_dense to ranks of the same host; a dense collective sums inside each host first
bytes_sent_inside | | bytes | | those of bytes_sent to ranks of the same host; 0: one rank per host, or the hosts are not known
ratio_between | | factor | | dense / sent of the bytes that left the host; null: one host, or one rank on each
bytes_calibration | | bytes | | bytes sent by this rank, not for a call but to measure the network
bytes_outside | | bytes | | bytes in the buffers of calls without a call signature in this report
bytes_largest | | bytes | | bytes in the largest buffer reduced
bytes_largest_total | | bytes | | bytes reduced in buffers of that size, over all calls
bytes_reduced_total | | bytes | | bytes reduced in all eligible calls
bytes_memory_peak | | bytes | | most memory that libsparseshim had for residuals and work space
""")
TIMES = Group("times", "Times", """
seconds_elapsed | | seconds | | seconds from the first call that was looked at to the report
timed | | flag | | all calls were timed: REPORT is on, or MODE is observe
seconds_allreduce | | seconds | | seconds in all calls that are looked at, small ones included, added up over threads
share_allreduce | | share | | f, seconds_allreduce / seconds_elapsed; null where some calls end in waits that are not timed, or where calls of several threads at once add up to more than the job
amdahl_cap | | factor | | 1 / (1 - f), how many times faster the job would be without these calls
seconds_scan | | seconds | | seconds looking for the entries to send, over all call signatures
seconds_vote | | seconds | | seconds agreeing on the call, the wait for the last rank included
seconds_exchange | | seconds | | seconds sending and receiving, waits included
seconds_merge | | seconds | | seconds adding up what was received
seconds_coding | | seconds | | seconds encoding and decoding
seconds_native | | seconds | | seconds in the MPI library's own collectives, of eligible calls
""")
ROUNDS = Group("rounds", "Partial allreduces", """
rounds | | count | | partial allreduces of this rank, QUORUM
rounds_steps | | count | | steps that they make: each ends where one of its tensors comes again
rounds_in | | count | | rounds with the gradient of this rank
rounds_left | | count | | rounds with the residual that late gradients of this rank had left
rounds_late | | count | | gradients that came when their round had begun
rounds_stale | | names | | late gradients by the rounds that they waited for their selection
rounds_queued_most | | count | | most results that waited for their calls
rounds_solo | | flag | | QUORUM is solo
seconds_waited | | seconds | | time that calls of this rank waited for the results of their rounds
seconds_behind | | seconds | | time that calls of this rank came later after the begin of their round than the call before; in synchronous calls the others would have waited for it
seconds_thread | | seconds | | processor time of the thread that takes part in rounds
seconds_thread_lived | | seconds | | life of that thread
share_thread | | share | | seconds_thread / seconds_thread_lived
rounds_stretches | | object | | the course over time, in at most 128 stretches of as many rounds each
""")
STRETCHES = Group("rounds_stretches", "Partial allreduces over time, an array each", """
rounds | | count | | rounds of the stretch
in | | count | | rounds with the gradient of this rank
left | | count | | rounds with the residual that late gradients of this rank had left
late | | count | | gradients of this rank that came late
seconds_waited | | seconds | | time that calls of this rank waited for their results
seconds_behind | | seconds | | time by which this rank fell behind, without a wait of the others
""")
SYNCHRONOUS = Group("synchronous", "Calls that wait for all ranks, besides the partial ones", """
calls | calls | count | 1 | calls that wait for all ranks, on communicators with rounds
kind | kind | text | 1 | the collective
count | count | count | 1 | elements of the last one, per rank in an allgather
site | called from | text | 1 | module and offset that they are called from; null: unknown
symbol | in | text | 1 | the function of the program there
""")
MERGED = Group("merged", "Merged calls", """
merge | | flag | | MERGE is on
joint_votes | | count | | votes of neighbouring nonblocking calls at once, MERGE
joint_calls | | count | | calls in these votes
joint_exchanges | | count | | exchanges of several calls at once
joint_sent | | count | | calls in them
joint_in_vain | | count | | such votes that waited in vain for a further call
planned_groups | | count | | MERGE: groups of a step by the last plan, 0 = none
planned_calls | | count | | calls of a step in that plan
planned_step_seconds | | seconds | | predicted time from the first of them to the end of the step
merged_step_seconds | | seconds | | measured time from step to step, in groups
alone_step_seconds | | seconds | | measured time from step to step, with each call alone
""")
NOTES = Group("notes", "Notes", """
note | | text | 1 | a sentence that the reader must know, such as why calls passed
""")
PASSED = Group("passed", "Passed through", """
reason | | text | | short name of the reason for which calls were handed to the MPI library
calls | calls | count | 1 | calls that were handed on for this reason
text | reason | text | 1 | the reason in words
""")
# The explanation of a reason.
REASONS = {
    "small": "calls below MIN_COUNT elements go straight to the MPI library",
    "communicator": "it has one rank, or two groups, or there was no private communicator for it; under Open MPI also: spawned processes, or MPI_Comm_idup copied it before its first call",
    "first_call": "the MPI library runs it; in it the ranks compare their options",
    "memory": "the log of that rank says more",
    "unregistered": "a rule of REGISTER, or the header, has to name the buffer on all ranks",
    "dense": "the ranks predicted less time for the MPI library's own collective",
    "backed_off": "after a dense plan the next 1, 3, 7, ... at most 63 calls pass without scan and vote; then a call votes again",
    "nonblocking": "PROGRESS says when nonblocking calls are served",
    "before_blocking": "PROGRESS=watchdog or thread serves them",
}
LANES = Group("lanes", "Call signatures", """
lane | signature | count | 123 | number of the call signature in this report: communicator, collective, count, type and operator, equal on all ranks
communicator | | text | | MPI name of the communicator, "" if it has none
_name | communicator | text | 1 | MPI name of the communicator
ranks | ranks | rank | 1 | ranks of the communicator, P
count | count | count | 1 | elements of the result; 0: further call signatures, which share a line
type | type | text | 1 | datatype of the elements
kind | | text | | the collective
op | | text | | the operator; means nothing in an allgather
_op | op | text | 1 | the operator; before it the collective where it is no allreduce
calls | calls | count | 1 | eligible calls; of a sum of more than 2^30 elements each 2^30 count as one, and the remainder
density_mean | density | share | 1! | share of the elements of this rank's input that are not zero, or were selected; mean of the calls that were scanned
density_max | largest | share | 1* | largest density of a rank in a call
density_result | of result | share | 1! | density of the result, mean of the calls made sparse in which this rank has all of it
_independent | 1-(1-d)^P | share | 1* | density of the result if the ranks' entries lay independently: "of result" below it means that they overlap
bytes_dense | dense | bytes | 1! | bytes that a dense collective would have sent from this rank, all calls
bytes_sent | sent | bytes | 1! | bytes sent by this rank, votes included; calls of the MPI library count as dense
ratio | ratio | factor | 1 | dense / sent
bytes_dense_inside | | bytes | | those of bytes_dense to ranks of the same host
bytes_sent_inside | | bytes | | those of bytes_sent to ranks of the same host
_dense_between | dense between | bytes | 1!? | bytes between hosts that a dense collective would have sent: it sums inside each host first; a host's bytes are divided among its ranks
_sent_between | sent between | bytes | 1!? | bytes that this rank sent to other hosts, votes included
ratio_between | ratio between | factor | 1? | dense between / sent between
seconds_scan | scan | seconds | 2! | time looking for the entries to send: those that are not zero, or the largest
seconds_vote | vote | seconds | 2! | time agreeing on the call, calibration and the wait for the last rank included
seconds_exchange | exchange | seconds | 2! | time sending and receiving, waits included
seconds_merge | merge | seconds | 2! | time adding up what was received
seconds_coding | coding | seconds | 2 | time encoding and decoding
seconds_native | native | seconds | 2! | time in the MPI library's own collective, of calls handed to it
sparse | made sparse by | names | 3 | calls by the algorithm that ran
passed | | names | | calls handed to the MPI library, by reason
_passed | passed through | names | 3 | calls handed to the MPI library, by reason
scans | | count | | calls that were scanned; density_sum is the sum over these
density_sum | | factor | | sum behind density_mean
fillin_calls | | count | | calls behind density_result
fillin_sum | | factor | | sum behind density_result
planned | | count | | calls with a plan; the predictions are sums over these
predicted_seconds_sum | | names | | seconds predicted by the model, by algorithm, scan and vote included; null: a call could not run it
predicted_bytes_sum | | names | | bytes predicted to be sent by this rank, likewise
predicted_inside_sum | | names | | those of them to ranks of the same host
topk_samples | | count | | MODE=observe: calls of which a sample was taken, to predict top-k
topk_density_sum | | factor | | share of the elements that top-k would send, sum over the samples
topk_kept_sum | | factor | | share of the input's squared norm in these elements, sum over the samples
topk_seconds_sum | | names | | seconds predicted for top-k by algorithm, sums over the samples
topk_bytes_sum | | names | | bytes predicted to be sent by this rank, likewise
topk_inside_sum | | names | | those of them to ranks of the same host
quant_seconds_sum | | factor | | MODE=observe: seconds that MODE=quant would take, likewise
quant_bytes_sum | | factor | | bytes that this rank would send then
quant_inside_sum | | factor | | those of them to ranks of the same host
advice | | object | | MODE=observe: settings that would make the calls faster
""")
ADVICE = Group("advice", "Advice for a call signature (MODE=observe)", """
_lane | signature | count | 1 | number of the call signature, as above
_try | try | text | 1 | settings that would make its calls faster; -: none
_why | because | text | 1 | density, and the time predicted against that measured of the MPI library
best | | text | | sparse algorithm of the least predicted time
predicted | | seconds | | this time, of a call
native | | seconds | | time of a call of the MPI library, measured
dense | | seconds | | time of a call of the MPI library, predicted
misfit | | flag | | `native` and `dense` differ by more than 2 times: longer, since ranks wait for each other; shorter, since the model is off
against | | seconds | | the time that a mode can shorten: native, or dense if that is less than half of it
gain | | flag | | the best takes 0.9 times as long as the less of `native` and `dense`, or less
unclear | | flag | | no mode gains, but one would against the greater of `native` and `dense`, and these differ by 2 times at most
topk | | text | | MODE=topk, which is lossy: algorithm of the least predicted time
topk_predicted | | seconds | | this time, of a call
topk_bytes | | bytes | | bytes that this rank would send in a call
topk_inside | | bytes | | those of them to ranks of the same host
topk_gain | | flag | | it takes 0.9 times as long as `against`, or less
quant_predicted | | seconds | | MODE=quant, which is lossy: predicted time of a call
quant_bytes | | bytes | | bytes that this rank would send in a call
quant_inside | | bytes | | those of them to ranks of the same host
quant_gain | | flag | | it takes 0.9 times as long as `against`, or less
""")
PREDICTIONS = Group("", "Predicted by call signature and algorithm (MODE=observe)", """
_lane | signature | count | 1 | number of the call signature, as above
_algorithm | algorithm | text | 1 | the collective; native: the MPI library's, as measured
_bytes | bytes sent | bytes | 1 | bytes sent by this rank, mean of a call
_between | between hosts | bytes | 1? | those of them that leave the host
_seconds | time | seconds | 1 | time of a call, scan and vote included
_faster | times faster | faster | 1 | time of native / this time
_remark | | text | 1 | marks the measured time, and the fastest sparse algorithm
""")
TOPK = Group("", "Predicted for MODE=topk (MODE=observe)", """
_lane | signature | count | 1 | number of the call signature, as above
_density | takes | share | 1! | share of the elements that would be sent
_kept | of the norm^2 | share | 1! | share of the input's squared norm in them; the remainder waits in the residual
_algorithm | algorithm | text | 1 | the collective of the least predicted time
_bytes | bytes sent | bytes | 1 | bytes that this rank would send in a call
_between | between hosts | bytes | 1? | those of them that leave the host
_fewer | times fewer | fewer | 1 | bytes of a dense call / these, of those between hosts if they are shown
_seconds | time | seconds | 1 | time predicted for a call
_faster | times faster | faster | 1 | measured time of the MPI library / this time
_remark | | text | 1 | settings for it, or the reason why there are none
""")
SMALL = Group("small", "Calls below MIN_COUNT", """
min_count | MIN_COUNT | count | 1 | a lower MIN_COUNT
_calls | calls more | count | 1 | further calls that would be served
_bytes | bytes | bytes | 1 | bytes in their buffers
_seconds | time | seconds | 1 | time spent in them
_share | of the job | share | 1 | this time, as a share of the job's
calls | | count | | calls of min_count elements and more, to below twice as many
bytes | | bytes | | bytes in their buffers
seconds | | seconds | | seconds spent in them
""")
TENSORS = Group("tensors", "Tensors (lossy modes)", """
tensor | tensor | count | 123 | number of the tensor in this report; a tensor is one sum of the program, in all its steps: a call signature, a call site and the number of the call within the step
communicator | | text | | MPI name of the communicator, "" if it has none
_name | communicator | text | 1 | MPI name of the communicator
ranks | ranks | rank | 1 | ranks of the communicator
site | | text | | module and offset that it is called from; null: unknown
_site | called from | text | 1 | module and offset that it is called from
symbol | function | text | 1 | the function there
ordinal | ordinal | integer | 1* | number of the call within the step, among those of its call signature and site, from 0
type | type | text | 1 | datatype of the elements
count | count | count | 1 | elements
calls | calls | count | 1 | calls of it, lossy or not
state | state | text | 2! | registered: its calls are lossy; exact; candidate: its position in the step is not known yet
topk_calls | lossy calls | count | 2 | calls sent whole or as top-k
density_asked | asked | share | 2 | share of the elements asked for, warm-up included; mean of these calls
density_selected | selected | share | 2 | share of the elements that this rank selected; mean of these calls
off | off k | share | 2* | error of this rank's selections: |selected - k| / k, mean
global_off | in sum | share | 2* | error of the set that oktopk or gtopk keeps of the sum, likewise
residual_norm | residual | factor | 2! | norm of this rank's residual, at the end
residual_ratio | to input | factor | 2! | residual over the norm of the last input sent as top-k: about the number of steps that wait
residual_of | of | text | 2 | rank: each rank has a residual; host: the ranks of a host share one, each a part (NODE_AGGREGATION)
reason | | text | | short name of the reason why it is not lossy; null: it is lossy
because | because | text | 2 | the reason why it is not lossy
rule | | text | | rule of REGISTER that would make it lossy
remedy | | text | | the remedy, if no rule would make it lossy
_rule | to register it all the same | text | 2 | setting that would make it lossy, or the remedy if none would
asked_sum | | factor | | sum behind density_asked
density_sum | | factor | | sum behind density_selected
off_sum | | factor | | sum behind off
global_calls | | count | | calls by oktopk or gtopk, behind global_off
global_off_sum | | factor | | sum behind global_off
input_norm | | factor | | norm of this rank's last input sent as top-k; 0: there was none
late | | count | | QUORUM: late gradients of this rank of which no selection has sent anything yet; they are in its residual
series | | object | | numbers of these calls at even distances, 128 points at most; null: there were none
decided_at | at call | count | 3* | number of its call in which it was first registered or refused; 0: not yet
guard_looks | looks | count | 3* | calls in which GUARD compared the result with the dense sum
guard_cosine | cosine | factor | 3* | cosine of result and dense sum in the last such call
guard_ratio | ratio | factor | 3* | largest norm of a rank's residual over that of its input in that call
""")
SERIES = Group("series", "Series of a tensor, an array each", """
call | | count | | number of the tensor's own call, from 1
density | | share | | share of the elements that this rank selected in it
threshold | | factor | | least magnitude that it selected; null where k of each B are taken
residual_norm | | factor | | norm of this rank's residual after the call
input_norm | | factor | | norm of this rank's input
""")
OPTIONS = Group("options", "Options", """
name | | text | 1 | an option that is not at its default, without SPARSESHIM_
value | | text | 1 | its value
""")
REPORT = (DOCUMENT, SUMMARY, JOB, CALLS, BYTES, TIMES, ROUNDS, STRETCHES, SYNCHRONOUS, MERGED, NOTES,
          PASSED, LANES, ADVICE, PREDICTIONS, TOPK, SMALL, TENSORS, SERIES, OPTIONS)
