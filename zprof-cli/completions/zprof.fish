# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_zprof_global_optspecs
    string join \n h/help V/version
end

function __fish_zprof_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_zprof_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_zprof_using_subcommand
    set -l cmd (__fish_zprof_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c zprof -n "__fish_zprof_needs_command" -s h -l help -d 'Print help'
complete -c zprof -n "__fish_zprof_needs_command" -s V -l version -d 'Print version'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "convert" -d 'Convert a profile to a trace that viewers read'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "view" -d 'Open a profile in Perfetto, or in XProf'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "summary" -d 'Print what a profile holds: planes, lines, and scopes by time'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "diff" -d 'Compare two profiles, scope by scope'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "flame" -d 'Draw a flame graph of a profile\'s scopes'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "check" -d 'Check whether a profile is sound'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "nsys" -d 'Run a program under NVIDIA Nsight Systems'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "rocprofv3" -d 'Run a program under AMD\'s rocprofv3'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "neuron" -d 'Profile programs on AWS Trainium and Inferentia, with Neuron Explorer'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "xctrace" -d 'Run a program under Instruments\' Points of Interest (macOS)'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "doctor" -d 'Say what works on this machine, and the cure for what does not'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "completions" -d 'Print the completions for a shell'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "man" -d 'Write the manual pages into a folder'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c zprof -n "__fish_zprof_using_subcommand convert" -s o -l output -d 'Where the trace goes; `-` is standard output [default: beside IN, or standard output if IN is `-`]' -r -F
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l format -d 'Format of the trace [default: as OUT ends, else json]' -r -f -a "json\t'Trace-viewer JSON, for Perfetto and TensorBoard'
json.gz\t'The same, compressed with gzip'
pftrace\t'Perfetto\'s own format: smaller, with typed values, flows and counters, and with planes that JSON has no place for'"
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l max-events -d 'Write at most N events, the earliest' -r
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l min-duration -d 'Write only events that last at least as long, such as 10us or 1.5ms' -r
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l time-range -d 'Write only events within a time, as the trace shows it: 0..10ms, 1s.. or ..500ms' -r
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l planes -d 'Only planes with this in their names, or with names that match it if it has `*` or `?`; several with commas' -r
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l tsl -d 'Write what TSL\'s converter writes, byte for byte, for comparison; by default it keeps 1,000,000 events'
complete -c zprof -n "__fish_zprof_using_subcommand convert" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand view" -l format -d 'Format that the profile is converted to [default: pftrace]' -r -f -a "json\t'Trace-viewer JSON, for Perfetto and TensorBoard'
json.gz\t'The same, compressed with gzip'
pftrace\t'Perfetto\'s own format: smaller, with typed values, flows and counters, and with planes that JSON has no place for'"
complete -c zprof -n "__fish_zprof_using_subcommand view" -l port -d 'Serve on this port [default: 9001, or 6006 for XProf]' -r
complete -c zprof -n "__fish_zprof_using_subcommand view" -l xprof -d 'Start XProf on the profile, on port 6006'
complete -c zprof -n "__fish_zprof_using_subcommand view" -l no-open -d 'Print the address and open no browser'
complete -c zprof -n "__fish_zprof_using_subcommand view" -l once -d 'End once the trace has been fetched'
complete -c zprof -n "__fish_zprof_using_subcommand view" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand summary" -l top -d 'Rows of each table, 0 for all [default: 20; all in JSON and CSV]' -r
complete -c zprof -n "__fish_zprof_using_subcommand summary" -l sort -d 'What the scopes are sorted by; asynchronous spans, which have no own time, by their total instead of that' -r -f -a "total\t''
self\t''
count\t''
mean\t''
p99\t''
max\t''
name\t''"
complete -c zprof -n "__fish_zprof_using_subcommand summary" -l planes -d 'Only planes with this in their names, or with names that match it if it has `*` or `?`; several with commas' -r
complete -c zprof -n "__fish_zprof_using_subcommand summary" -l exclude -d 'Leave out scopes, asynchronous spans, steps and counters with this in their names, or with names that match it if it has `*` or `?`; several with commas' -r
complete -c zprof -n "__fish_zprof_using_subcommand summary" -l json -d 'Print JSON'
complete -c zprof -n "__fish_zprof_using_subcommand summary" -l csv -d 'Print CSV'
complete -c zprof -n "__fish_zprof_using_subcommand summary" -l steps -d 'Print each step, not only what all have in common; in CSV, instead of the scopes'
complete -c zprof -n "__fish_zprof_using_subcommand summary" -l async -d 'In CSV, print the asynchronous spans instead of the scopes'
complete -c zprof -n "__fish_zprof_using_subcommand summary" -l counters -d 'In CSV, print the counters instead of the scopes'
complete -c zprof -n "__fish_zprof_using_subcommand summary" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand diff" -l top -d 'Rows of each table, 0 for all [default: 20; all in JSON and CSV]' -r
complete -c zprof -n "__fish_zprof_using_subcommand diff" -l planes -d 'Only planes with this in their names, or with names that match it if it has `*` or `?`; several with commas' -r
complete -c zprof -n "__fish_zprof_using_subcommand diff" -l exclude -d 'Leave out scopes, asynchronous spans, steps and counters with this in their names, or with names that match it if it has `*` or `?`; several with commas' -r
complete -c zprof -n "__fish_zprof_using_subcommand diff" -l fail-on-regression -d 'End with exit code 1 if the mean of any scope is slower by more than this many percent for sure' -r
complete -c zprof -n "__fish_zprof_using_subcommand diff" -l json -d 'Print JSON'
complete -c zprof -n "__fish_zprof_using_subcommand diff" -l csv -d 'Print CSV'
complete -c zprof -n "__fish_zprof_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand flame" -s o -l output -d 'Where the picture goes; `-` is standard output [default: standard output]' -r -F
complete -c zprof -n "__fish_zprof_using_subcommand flame" -l planes -d 'Only planes with this in their names, or with names that match it if it has `*` or `?`; several with commas' -r
complete -c zprof -n "__fish_zprof_using_subcommand flame" -l title -d 'Title of the picture' -r
complete -c zprof -n "__fish_zprof_using_subcommand flame" -l folded -d 'Write folded stacks instead of an SVG: `outer;inner 1234`, in nanoseconds, for other tools'
complete -c zprof -n "__fish_zprof_using_subcommand flame" -l by-thread -d 'Begin each stack with its thread'
complete -c zprof -n "__fish_zprof_using_subcommand flame" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand check" -l max-per-kind -d 'Print at most N findings of each kind; all are counted' -r
complete -c zprof -n "__fish_zprof_using_subcommand check" -l json -d 'Print JSON'
complete -c zprof -n "__fish_zprof_using_subcommand check" -l strict -d 'Take warnings for errors'
complete -c zprof -n "__fish_zprof_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand nsys" -s o -l output -d 'Where the report goes; nsys adds the ending. Without it: report1, report2, … here' -r -F
complete -c zprof -n "__fish_zprof_using_subcommand nsys" -l sudo -d 'Run nsys, and with it the program, as root: by `sudo -E`, with your whole environment'
complete -c zprof -n "__fish_zprof_using_subcommand nsys" -l no-sudo -d 'Without effect, since nsys runs as root only if that is asked for'
complete -c zprof -n "__fish_zprof_using_subcommand nsys" -l force -d 'Write over a report of that name'
complete -c zprof -n "__fish_zprof_using_subcommand nsys" -l no-check -d 'Do not look into the report for zprof\'s ranges; with large reports that takes a while'
complete -c zprof -n "__fish_zprof_using_subcommand nsys" -l dry-run -d 'Print the command as a shell takes it, and run nothing'
complete -c zprof -n "__fish_zprof_using_subcommand nsys" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand rocprofv3" -l rocm-root -d 'Where ROCm is; without it: `ROCM_PATH`, `ROCM_HOME`, /opt/rocm, or by way of `PATH`' -r -F
complete -c zprof -n "__fish_zprof_using_subcommand rocprofv3" -l dry-run -d 'Print the command as a shell takes it, and run nothing'
complete -c zprof -n "__fish_zprof_using_subcommand rocprofv3" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and not __fish_seen_subcommand_from profile server ingest summary-json summary-txt summary-perfetto help" -s h -l help -d 'Print help'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and not __fish_seen_subcommand_from profile server ingest summary-json summary-txt summary-perfetto help" -f -a "profile" -d 'Run a program and keep its profile in a folder of its own'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and not __fish_seen_subcommand_from profile server ingest summary-json summary-txt summary-perfetto help" -f -a "server" -d 'Serve what has been ingested'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and not __fish_seen_subcommand_from profile server ingest summary-json summary-txt summary-perfetto help" -f -a "ingest" -d 'Make runs known to the server'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and not __fish_seen_subcommand_from profile server ingest summary-json summary-txt summary-perfetto help" -f -a "summary-json" -d 'Write a run\'s summary as JSON, into RUN/summary.json'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and not __fish_seen_subcommand_from profile server ingest summary-json summary-txt summary-perfetto help" -f -a "summary-txt" -d 'Write a run\'s summary as text, into RUN/summary.txt'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and not __fish_seen_subcommand_from profile server ingest summary-json summary-txt summary-perfetto help" -f -a "summary-perfetto" -d 'Write a run as a Perfetto trace, into RUN/summary.pftrace'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and not __fish_seen_subcommand_from profile server ingest summary-json summary-txt summary-perfetto help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from profile" -l root -d 'Where runs are kept: each in a folder called by its UTC time' -r -F
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from profile" -l dry-run -d 'Print the command as a shell takes it, and run nothing'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from profile" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from server" -l data-path -d 'Where the server keeps what it has read' -r -F
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from server" -l port -d 'The port; the next one is used as well, so forward both over SSH' -r
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from server" -l dry-run -d 'Print the command as a shell takes it, and run nothing'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from server" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from ingest" -l data-path -d 'Where the server keeps what it has read' -r -F
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from ingest" -l dry-run -d 'Print the commands as a shell takes them, and run nothing'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from ingest" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from summary-json" -l dry-run -d 'Print the command as a shell takes it, and run nothing'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from summary-json" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from summary-txt" -l dry-run -d 'Print the command as a shell takes it, and run nothing'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from summary-txt" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from summary-perfetto" -l dry-run -d 'Print the command as a shell takes it, and run nothing'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from summary-perfetto" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from help" -f -a "profile" -d 'Run a program and keep its profile in a folder of its own'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from help" -f -a "server" -d 'Serve what has been ingested'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from help" -f -a "ingest" -d 'Make runs known to the server'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from help" -f -a "summary-json" -d 'Write a run\'s summary as JSON, into RUN/summary.json'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from help" -f -a "summary-txt" -d 'Write a run\'s summary as text, into RUN/summary.txt'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from help" -f -a "summary-perfetto" -d 'Write a run as a Perfetto trace, into RUN/summary.pftrace'
complete -c zprof -n "__fish_zprof_using_subcommand neuron; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c zprof -n "__fish_zprof_using_subcommand xctrace" -s o -l output -d 'Where the recording goes; without it: zprof-<UTC time>.trace here' -r -F
complete -c zprof -n "__fish_zprof_using_subcommand xctrace" -l dry-run -d 'Print the command as a shell takes it, and run nothing'
complete -c zprof -n "__fish_zprof_using_subcommand xctrace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand doctor" -l json -d 'Print JSON'
complete -c zprof -n "__fish_zprof_using_subcommand doctor" -l all -d 'Print also what nothing on this machine needs; JSON always has it'
complete -c zprof -n "__fish_zprof_using_subcommand doctor" -l strict -d 'Exit with 1 if anything is missing that this machine has use for'
complete -c zprof -n "__fish_zprof_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "convert" -d 'Convert a profile to a trace that viewers read'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "view" -d 'Open a profile in Perfetto, or in XProf'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "summary" -d 'Print what a profile holds: planes, lines, and scopes by time'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "diff" -d 'Compare two profiles, scope by scope'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "flame" -d 'Draw a flame graph of a profile\'s scopes'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "check" -d 'Check whether a profile is sound'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "nsys" -d 'Run a program under NVIDIA Nsight Systems'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "rocprofv3" -d 'Run a program under AMD\'s rocprofv3'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "neuron" -d 'Profile programs on AWS Trainium and Inferentia, with Neuron Explorer'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "xctrace" -d 'Run a program under Instruments\' Points of Interest (macOS)'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "doctor" -d 'Say what works on this machine, and the cure for what does not'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "completions" -d 'Print the completions for a shell'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "man" -d 'Write the manual pages into a folder'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view summary diff flame check nsys rocprofv3 neuron xctrace doctor completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c zprof -n "__fish_zprof_using_subcommand help; and __fish_seen_subcommand_from neuron" -f -a "profile" -d 'Run a program and keep its profile in a folder of its own'
complete -c zprof -n "__fish_zprof_using_subcommand help; and __fish_seen_subcommand_from neuron" -f -a "server" -d 'Serve what has been ingested'
complete -c zprof -n "__fish_zprof_using_subcommand help; and __fish_seen_subcommand_from neuron" -f -a "ingest" -d 'Make runs known to the server'
complete -c zprof -n "__fish_zprof_using_subcommand help; and __fish_seen_subcommand_from neuron" -f -a "summary-json" -d 'Write a run\'s summary as JSON, into RUN/summary.json'
complete -c zprof -n "__fish_zprof_using_subcommand help; and __fish_seen_subcommand_from neuron" -f -a "summary-txt" -d 'Write a run\'s summary as text, into RUN/summary.txt'
complete -c zprof -n "__fish_zprof_using_subcommand help; and __fish_seen_subcommand_from neuron" -f -a "summary-perfetto" -d 'Write a run as a Perfetto trace, into RUN/summary.pftrace'
