package command_test

import (
	"strings"
	"testing"
)

// TestCommandLine is the specification of how commands, flags and help are named on the command line.
func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		status int
		// out and errs are parts of what is printed, not what isn't.
		out, errs, not []string
	}{
		{"help has each command, and no process that croft starts itself", []string{"help"}, 0,
			[]string{"COMMANDS:", "\n   zdb, zdbd  run the zdb module", "\n   help, h    show", "GLOBAL OPTIONS:\n   --help, -h  show help\n"}, nil, []string{"unpack", "door", "read-flist"}},
		{"help by the short name", []string{"h"}, 0, []string{"COMMANDS:"}, nil, nil},
		{"help by a flag", []string{"-h"}, 0, []string{"COMMANDS:"}, nil, nil},
		{"help of a command", []string{"help", "store"}, 0, []string{"croftd store - decide", "\n   restore         make"}, nil, nil},
		{"help of a command below", []string{"help", "store", "restore"}, 0, []string{"croftd store restore - make", "USAGE:\n   croftd store restore [command options]\n", "--from INSTANCE"}, nil, []string{"COMMANDS"}},
		{"help below a command", []string{"store", "help", "restore"}, 0, []string{"croftd store restore - make"}, nil, nil},
		{"help of a command below by a flag", []string{"store", "restore", "--help"}, 0, []string{"croftd store restore - make"}, nil, nil},
		{"help goes before what is missing", []string{"store", "restore", "-h"}, 0, []string{"--from"}, nil, nil},
		{"help of a command with another name", []string{"help", "zdbd"}, 0, []string{"croftd zdb - run"}, nil, nil},
		{"help of no command", []string{"help", "dance"}, 2, nil, []string{`croftd has no command "dance"`}, nil},
		{"help of no command below", []string{"store", "help", "dance"}, 2, nil, []string{`croftd store has no command "dance"`}, nil},
		{"arguments of a command are in its usage", []string{"help", "evict"}, 0, []string{"croftd evict [command options] ID\n"}, nil, nil},
		{"flags are in groups", []string{"run", "--help"}, 0,
			[]string{"OPTIONS:\n   --config FILE", "\n\n   Admission\n\n   --accept-signature-v1 ", "[$CROFT_GRACE] (default: 168h)"}, nil, nil},
		{"either name of a flag", []string{"version", "-o", "json"}, 0, []string{`"version":"v9"`}, nil, nil},
		{"the other name of a flag", []string{"version", "--output=json"}, 0, []string{`"version":"v9"`}, nil, nil},
		{"both names of a flag", []string{"version", "--output", "json", "-o", "text"}, 2, nil, []string{"cannot use both --output and --o"}, nil},
		{"a value that is missing", []string{"run", "--heartbeat"}, 2, nil, []string{"flag needs an argument: -heartbeat"}, nil},
		{"flags end at the first argument", []string{"run", "now", "--nosuch"}, 2, nil, []string{`cannot use "now"`}, nil},
		{"a command with another name", []string{"zdbd", "now"}, 2, nil, []string{"croftd zdb takes no arguments"}, nil},
		{"a flag before the command", []string{"--config", "x", "run"}, 2, nil, []string{"flag provided but not defined: -config"}, nil},
		{"a flag before the name of the command that it is for", []string{"storage", "--state-dir", "/other", "destroy", "--all", "--yes"}, 2, nil, []string{`cannot use --state-dir before "destroy": flags of croftd storage destroy stand behind its name`}, nil},
		{"a value that a switch doesn't take", []string{"storage", "destroy", "--all", "--yes", "false"}, 2, nil, []string{`cannot use "false": croftd storage destroy takes no arguments`}, nil},
		{"a flag behind an argument", []string{"storage", "destroy", "--all", "ssd0", "--pool", "ssd0"}, 2, nil, []string{`cannot use "ssd0": croftd storage destroy takes no arguments`}, nil},
		{"an argument of a question", []string{"status", "json"}, 2, nil, []string{`cannot use "json": croftd status takes no arguments`}, nil},
		{"an argument of an order", []string{"store", "accept-older", "typo", "--nosuch"}, 2, nil, []string{`cannot use "typo"`}, nil},
		{"a mistyped command below one that does something itself", []string{"config", "chek", "/no/such.yaml"}, 2, nil, []string{`cannot run "chek": no such command; see croftd config help`}, nil},
		{"no form of the version", []string{"version", "-o", "xml"}, 2, nil, []string{`cannot use output = "xml": it must be text or json`}, nil},
		{"a file whose name is that of help", []string{"config", "check", "h"}, 2, []string{"stat h: no such file"}, []string{"cannot use h"}, nil},
		{"help before an argument", []string{"evict", "--help", "1-1"}, 0, []string{"croftd evict - take"}, nil, nil},
		{"help of help", []string{"help", "--help"}, 0, []string{"COMMANDS:"}, nil, nil},
		{"help of help below", []string{"store", "help", "help"}, 0, []string{"croftd store - decide"}, nil, nil},
		{"a hook's arguments are all its program's", []string{"hook", "--help"}, 126, nil, []string{"cannot run --help"}, nil},
		{"a process that croft starts itself has no help", []string{"unpack", "--help"}, 2, nil, []string{"help requested"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, out, errs := croftd(c.args...)
			if status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			for _, part := range c.out {
				if !strings.Contains(out, part) {
					t.Errorf("it doesn't print %q", part)
				}
			}
			for _, part := range c.errs {
				if !strings.Contains(errs, part) {
					t.Errorf("it doesn't say %q", part)
				}
			}
			for _, part := range c.not {
				if strings.Contains(out, part) {
					t.Errorf("it prints %q", part)
				}
			}
			if len(c.errs) == 0 && errs != "" || len(c.out) == 0 && out != "" {
				t.Error("it prints where it should be silent")
			}
			if t.Failed() {
				t.Logf("out: %s\nerr: %s", out, errs)
			}
		})
	}
}
