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
complete -c zprof -n "__fish_zprof_needs_command" -f -a "convert" -d 'Convert an XSpace to a trace that viewers read'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "view" -d 'Open a profile in Perfetto, or in XProf'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "completions" -d 'Print the completions for a shell'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "man" -d 'Write the manual pages into a folder'
complete -c zprof -n "__fish_zprof_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c zprof -n "__fish_zprof_using_subcommand convert" -s o -l output -d 'Where the trace goes; `-` is standard output [default: beside IN, or standard output if IN is `-`]' -r -F
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l format -d 'Format of the trace [default: as OUT ends, else json]' -r -f -a "json\t'Trace-viewer JSON, for Perfetto and TensorBoard'
json.gz\t'The same, compressed with gzip'"
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l max-events -d 'Write at most N events, the earliest' -r
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l min-duration -d 'Write only events that last at least as long, such as 10us or 1.5ms' -r
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l time-range -d 'Write only events within a time, as the trace shows it: 1s..1.5s, 1s.. or ..500ms' -r
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l planes -d 'Write only planes with this in their names, or with names that match it if it has `*` or `?`; several with commas' -r
complete -c zprof -n "__fish_zprof_using_subcommand convert" -l tsl -d 'Write what TSL\'s converter writes, byte for byte, for comparison; by default it keeps 1000000 events'
complete -c zprof -n "__fish_zprof_using_subcommand convert" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand view" -l port -d 'Serve on this port; ui.perfetto.dev reaches no other than 9001 unless its flag "Relax Content Security Policy for 127.0.0.1:*" is on' -r
complete -c zprof -n "__fish_zprof_using_subcommand view" -l xprof -d 'Start XProf on the profile, on port 6006'
complete -c zprof -n "__fish_zprof_using_subcommand view" -l no-open -d 'Print the address and open no browser'
complete -c zprof -n "__fish_zprof_using_subcommand view" -l once -d 'End once the trace has been fetched'
complete -c zprof -n "__fish_zprof_using_subcommand view" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand man" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view completions man help" -f -a "convert" -d 'Convert an XSpace to a trace that viewers read'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view completions man help" -f -a "view" -d 'Open a profile in Perfetto, or in XProf'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view completions man help" -f -a "completions" -d 'Print the completions for a shell'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view completions man help" -f -a "man" -d 'Write the manual pages into a folder'
complete -c zprof -n "__fish_zprof_using_subcommand help; and not __fish_seen_subcommand_from convert view completions man help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
