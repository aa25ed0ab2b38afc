# Answers many questions of Environment Modules in one process. tclsh reads this program, as one command, from its standard
# input; after that a line with the path of modulecmd.tcl and a line for each question: the arguments of modulecmd.tcl.
# Every word is in hexadecimal. An answer is what modulecmd.tcl writes to standard output and to standard error, and on
# each after that a line: \001quell NUMBER STATUS.
#
# Starting modulecmd.tcl and compiling its procedures takes ten times longer than an answer. So its procedures are read
# once, into an interpreter of their own, and what follows the last of them, the main program, is run for each question.
# In between everything that it changed is put back: variables, procedures, interpreters, channels, environment, directory.
#
# The rc file at a modulepath's root and its cache are evaluated for every question. What the first evaluation changes is kept and put in
# place again for `load` and `path`, if nothing else was evaluated before it and it says nothing. An rc file must be literal: then it
# changes the same each time.

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
    global undo procedures defined
    foreach command [lreverse $undo] {
        if {[lindex $command 0] eq {quell_rename}} {
            catch {main invokehidden rename {*}[lrange $command 1 end]}
        } else {
            main eval $command
        }
    }
    set undo {}
    # There are hundreds of procedures, and a question defines few.
    foreach name [lsort -unique $defined] {
        if {[catch {main eval [list info body ::$name]} body]} continue
        if {![dict exists $procedures $name]} {
            main invokehidden rename $name {}
        } elseif {$body ne [dict get $procedures $name]} {
            main eval [dict get $::definitions $name]
        }
    }
    set defined {}
}

# A procedure that the main interpreter defines. Those of a namespace stay as they are.
proc defines {command args} {
    lappend ::defined [string trimleft [lindex $command 1] :]
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

# Every variable of the main interpreter.
proc snapshot {} {
    global own
    set all {}
    foreach name [main eval {info globals}] {
        if {$name in $own} continue
        if {[main eval [list array exists ::$name]]} {
            dict set all $name [list array [main eval [list array get ::$name]]]
        } elseif {[main eval [list info exists ::$name]]} {
            dict set all $name [list scalar [main eval [list set ::$name]]]
        }
    }
    return $all
}

# The commands that turn the variables `before` into those `after`.
proc changes {before after} {
    set commands {}
    dict for {name value} $after {
        lassign $value kind now
        set was {}
        if {[dict exists $before $name]} {
            if {[dict get $before $name] eq $value} continue
            lassign [dict get $before $name] kind_before was
            if {$kind_before ne $kind} {
                lappend commands [list unset ::$name]
                set was {}
            }
        }
        if {$kind eq {scalar}} {
            lappend commands [list set ::$name $now]
            continue
        }
        set set {}
        dict for {key element} $now {
            if {![dict exists $was $key] || [dict get $was $key] ne $element} {
                lappend set $key $element
            }
        }
        lappend commands [list array set ::$name $set]
        foreach key [dict keys $was] {
            if {![dict exists $now $key]} {
                lappend commands [list unset ::${name}($key)]
            }
        }
    }
    foreach name [dict keys $before] {
        if {![dict exists $after $name]} {
            lappend commands [list unset ::$name]
        }
    }
    return $commands
}

# Tells whether an rc file holds nothing but literal commands, which do not ask for anything.
proc is_literal {file} {
    if {[main eval [list info exists ::g_modfileContent($file)]]} {
        set text [lindex [main eval [list set ::g_modfileContent($file)]] 1]
    } elseif {[catch {
        set channel [open $file]
        set text [read $channel]
        close $channel
    }]} {
        return 0
    }
    set word {module-(version|alias|virtual|hide|tag|forbid)|hide-(version|modulefile)}
    foreach line [split $text \n] {
        if {![regexp {^\s*(#|$)} $line] && ![regexp "^\\s*($word)\\s\[^\[\$\\\\;{}\"]*$" $line]} {
            return 0
        }
        # A comment may go on in the next line.
        if {[string index $line end] eq "\\"} {
            return 0
        }
    }
    return 1
}

# The most evaluations that are kept.
set most 16

# Evaluations of this question so far; `other` once one of them is not kept.
set history {}
set kept [dict create]
set learning {}
set spoke 0

# Called before a file is evaluated. Returns `known` and the result if what the evaluation changes is known and now in place, `new` if it
# is to be told to `evaluated`, or nothing.
proc known {procedure file args} {
    global history kept learning most
    set key [list $procedure $file {*}$args]
    set is_one [expr {$procedure eq {execute-cachefile} || $procedure eq {execute-modulerc} && [lindex $args 0] eq {.modulerc}}]
    if {$learning ne {} || $history eq {other} || !$::is_plain || !$is_one} {
        set history other
        return {}
    }
    set evaluation [list $history $key]
    if {![dict exists $kept $evaluation]} {
        # A site's hooks may do anything at each evaluation.
        if {![main eval {array exists ::g_hooks}] && [dict size $kept] < $most && ($procedure eq {execute-cachefile} || [is_literal $file])} {
            set ::spoke 0
            set learning [list $evaluation [snapshot]]
            return new
        }
        dict set kept $evaluation {}
    }
    if {[dict get $kept $evaluation] eq {}} {
        set history other
        return {}
    }
    lassign [dict get $kept $evaluation] result commands
    foreach command $commands {
        main eval $command
    }
    lappend history $key
    return [list known $result]
}

# Called with the result after a file was evaluated; returns it.
proc evaluated {result} {
    global history kept learning
    lassign $learning evaluation before
    set learning {}
    if {$::spoke || $history eq {other}} {
        dict set kept $evaluation {}
        set history other
    } else {
        dict set kept $evaluation [list $result [changes $before [snapshot]]]
        lappend history [lindex $evaluation 1]
    }
    return $result
}

proc said {args} {
    set ::spoke 1
}

# Has the main interpreter ask for what is known before it evaluates a file.
proc keep_evaluations {} {
    interp alias main quell_known {} known
    interp alias main quell_evaluated {} evaluated
    interp alias main quell_said {} said
    foreach name {execute-modulerc execute-cachefile execute-modulefile} {
        if {[main eval [list info procs $name]] eq {}} continue
        lassign [definition $name] proc name arguments body
        set words {}
        foreach argument $arguments {
            append words { $} [lindex $argument 0]
        }
        # On one line with the first: traces of the tool's own errors give line numbers.
        set ask "lassign \[quell_known $name$words\] quell quell_result; if {\$quell eq {known}} {return \$quell_result};"
        append ask "if {\$quell eq {new}} {return \[quell_evaluated \[quell_$name$words\]\]}; "
        main eval [list proc $name $arguments $ask$body]
        main eval [list proc quell_$name $arguments $body]
    }
    foreach name {report reportError reportWarning reportInternalBug} {
        if {[main eval [list info procs $name]] eq {}} continue
        lassign [definition $name] proc name arguments body
        main eval [list proc $name $arguments "quell_said; $body"]
    }
}

lassign [parts $script] definitions_text program
interp create main
main eval [list set argv0 $script]
main eval [list set argc 0]
main eval {set argv {}}
main eval [list info script $script]
main eval $definitions_text
keep_evaluations
set undo {}
set defined {}
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
interp alias main quell_defines {} defines
main eval {trace add execution proc enter quell_defines}
interp hide main rename
interp alias main rename {} renamed
interp hide main exit
interp alias main exit {} ended

set number 0
foreach question $questions {
    set arguments [lmap argument $question {word $argument}]
    # Assignments stand before the name of the shell.
    set number_of_assignments 0
    while {[regexp {^(\w+)=(.*)$} [lindex $arguments 0] -> name value]} {
        main eval [list set ::env($name) $value]
        set arguments [lrange $arguments 1 end]
        incr number_of_assignments
    }
    set history {}
    set learning {}
    # Options and variables of a shell may change what an evaluation does.
    set is_plain [expr {$number_of_assignments == 0 && [lindex $arguments 1] in {load path}}]
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
