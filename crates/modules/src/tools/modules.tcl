# Answers many questions of Environment Modules in one process. tclsh reads this program, as one command, from its standard
# input; after that a line with the path of modulecmd.tcl and a line for each question: the arguments of modulecmd.tcl.
# Every word is in hexadecimal. An answer is what modulecmd.tcl writes to standard output and to standard error, and on
# each after that a line: \001quell NUMBER STATUS.
#
# Starting modulecmd.tcl and compiling its procedures takes ten times longer than an answer. So its procedures are read
# once, into an interpreter of their own, and what follows the last of them, the main program, is run for each question.
# In between everything that it changed is put back: variables, procedures, interpreters, channels, environment, directory.

proc word {hexadecimal} {
    encoding convertfrom [encoding system] [binary decode hex $hexadecimal]
}

set script [word [gets stdin]]
set questions [split [string trimright [read stdin] \n] \n]

# The definitions of the script, and its main program.
proc parts {script} {
    set channel [open $script]
    set text [read $channel]
    close $channel
    set commands {}
    set command {}
    foreach line [split $text \n] {
        append command $line \n
        if {[info complete $command]} {
            lappend commands $command
            set command {}
        }
    }
    lappend commands $command
    set last [lindex [lsearch -all -glob $commands {proc *}] end]
    if {$last eq {}} {
        puts stderr "no procedures in $script"
        exit 125
    }
    list [join [lrange $commands 0 $last] {}] [join [lrange $commands $last+1 end] {}]
}

# Variables that are the interpreter's own.
set own {env tcl_platform tcl_pkgPath tcl_library tcl_patchLevel tcl_version auto_index auto_path auto_oldpath errorInfo errorCode}

proc keep_variables {} {
    global arrays scalars own
    foreach name [main eval {info globals}] {
        if {$name in $own} continue
        if {[main eval [list array exists ::$name]]} {
            set arrays($name) [main eval [list array get ::$name]]
        } elseif {[main eval [list info exists ::$name]]} {
            set scalars($name) [main eval [list set ::$name]]
        }
    }
}

proc put_variables_back {} {
    global arrays scalars own
    foreach name [main eval {info globals}] {
        if {$name ni $own && ![info exists scalars($name)]} {
            main eval [list unset -nocomplain ::$name]
        }
    }
    foreach {name value} [array get arrays] {
        main eval [list array set ::$name $value]
    }
    foreach {name value} [array get scalars] {
        main eval [list set ::$name $value]
    }
    main eval {unset -nocomplain ::errorInfo ::errorCode}
}

# A command of the main interpreter: renaming is noted, and what is renamed away is kept.
proc renamed {from to} {
    global undo
    set name [string trimleft $from :]
    if {$to eq {}} {
        if {[main eval [list info procs $name]] ne {}} {
            lappend undo [definition $name]
        }
    } else {
        lappend undo [list quell_rename $to $from]
    }
    main invokehidden rename $from $to
}

proc definition {name} {
    set arguments {}
    foreach argument [main eval [list info args $name]] {
        if {[main eval [list info default $name $argument quell_default]]} {
            lappend arguments [list $argument [main eval {set quell_default}]]
        } else {
            lappend arguments $argument
        }
    }
    main eval {unset -nocomplain quell_default}
    list proc $name $arguments [main eval [list info body $name]]
}

proc put_procedures_back {} {
    global undo procedures
    foreach command [lreverse $undo] {
        if {[lindex $command 0] eq {quell_rename}} {
            catch {main invokehidden rename {*}[lrange $command 1 end]}
        } else {
            main eval $command
        }
    }
    set undo {}
    foreach name [main eval {info procs}] {
        if {![dict exists $procedures $name]} {
            main invokehidden rename $name {}
        } elseif {[main eval [list info body $name]] ne [dict get $procedures $name]} {
            main eval [dict get $::definitions $name]
        }
    }
}

# `exit` of the main interpreter: no `catch` holds it.
proc ended {{status 0}} {
    set ::status $status
    interp cancel -unwind main
    return -code error
}

proc put_back {} {
    global environment directory channels
    foreach name [interp slaves main] {
        main eval [list interp delete $name]
    }
    # By the interpreter that changed it: each has its own view of the environment.
    foreach name [main eval {array names ::env}] {
        if {![dict exists $environment $name]} {
            main eval [list unset -nocomplain ::env($name)]
        }
    }
    dict for {name value} $environment {
        main eval [list set ::env($name) $value]
    }
    cd $directory
    foreach channel [main eval {chan names}] {
        if {$channel ni $channels} {
            catch {main eval [list close $channel]}
        }
    }
    put_procedures_back
    put_variables_back
}

lassign [parts $script] definitions_text program
interp create main
main eval [list set argv0 $script]
main eval [list set argc 0]
main eval {set argv {}}
main eval [list info script $script]
main eval $definitions_text
set undo {}
set environment [array get env]
set directory [pwd]
set channels [main eval {chan names}]
set procedures {}
set definitions {}
foreach name [main eval {info procs}] {
    dict set procedures $name [main eval [list info body $name]]
    dict set definitions $name [definition $name]
}
keep_variables
interp hide main rename
interp alias main rename {} renamed
interp hide main exit
interp alias main exit {} ended

set number 0
foreach question $questions {
    set arguments [lmap argument $question {word $argument}]
    # Assignments stand before the name of the shell.
    while {[regexp {^(\w+)=(.*)$} [lindex $arguments 0] -> name value]} {
        main eval [list set ::env($name) $value]
        set arguments [lrange $arguments 1 end]
    }
    main eval [list set argv $arguments]
    main eval [list set argc [llength $arguments]]
    set status none
    if {[catch {main eval $program} message options] && $status eq {none}} {
        puts stderr $message
        set status 1
    }
    if {$status eq {none}} {
        set status 0
    }
    flush stdout
    flush stderr
    puts stdout "\001quell $number $status"
    puts stderr "\001quell $number $status"
    flush stdout
    incr number
    put_back
}
