// Command croft-init is the first process (PID 1) of interactive containers: it runs the container's
// program, collects orphans, forwards signals, and serves a web terminal. In containers with secret
// variables it loads these from a file in memory; with --exec it then replaces itself by the
// container's program.
package main

import (
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/cmd/croft-init/internal/environment"
	"github.com/croft-edge/croft/cmd/croft-init/internal/pid1"
)

// version and commit are set by the linker.
var (
	version = "dev"
	commit  = "unknown"
)

const usage = `usage: croft-init [--env FILE [--keep NAME]…] [--listen IP:PORT[,IP:PORT…]] [--name NAME[,NAME…]] [-- PROGRAM ARGUMENT…]
       croft-init [--env FILE [--keep NAME]…] --exec -- PROGRAM ARGUMENT…

  --env      a file of secret variables, which go over the others
  --keep     a variable that isn't taken from the file
  --exec     become PROGRAM, and do nothing else
  --listen   where the web terminal answers, and nowhere else; without it there is none
  --name     names that it may be asked for by, beside its addresses and the host's name
  --version  say which version this is

Runs PROGRAM and ends as it does; without one it ends on SIGTERM.
`

// Its memory counts against the container's.
const (
	memoryLimit = 24 << 20
	gcPercent   = 25
	threads     = 2
)

func main() {
	debug.SetMemoryLimit(memoryLimit)
	debug.SetGCPercent(gcPercent)
	runtime.GOMAXPROCS(min(threads, runtime.GOMAXPROCS(0)))

	asked, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case errors.Is(err, errVersion):
		fmt.Printf("croft-init version %s (%s)\n", version, commit)
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "croft-init: %v\n%s", err, usage)
		os.Exit(2)
	}
	os.Exit(do(asked))
}

// do runs croft-init with the parsed options and returns the exit code.
func do(o options) int {
	if o.env != "" {
		if err := environment.Load(o.env, o.keep); err != nil {
			fmt.Fprintf(os.Stderr, "croft-init: %v\n", err)
			return pid1.CodeNotStarted
		}
	}
	if o.exec {
		err := environment.Become(o.Args)
		fmt.Fprintf(os.Stderr, "croft-init: %v\n", err)
		return pid1.StartCode(err)
	}
	return pid1.Run(o.Config)
}

var errVersion = errors.New("asked for the version")

// options are the parsed arguments.
type options struct {
	pid1.Config
	// env is the file of secret variables, keep the variables that it must not override.
	env  string
	keep []string
	exec bool
}

func parse(args []string) (options, error) {
	var listen, names string
	var askVersion bool
	var o options
	flags := flag.NewFlagSet("croft-init", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&listen, "listen", "", "")
	flags.StringVar(&names, "name", "", "")
	flags.StringVar(&o.env, "env", "", "")
	flags.Func("keep", "", func(name string) error { o.keep = append(o.keep, name); return nil })
	flags.BoolVar(&o.exec, "exec", false, "")
	flags.BoolVar(&askVersion, "version", false, "")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if askVersion {
		return options{}, errVersion
	}
	o.Config = pid1.Config{Args: flags.Args(), Log: os.Stderr, Names: split(names)}
	if o.exec && len(o.Args) == 0 {
		return options{}, errors.New("cannot become a program: none is named")
	}
	for _, text := range split(listen) {
		address, err := netip.ParseAddrPort(text)
		if err != nil || address.Port() == 0 || address.Addr().Zone() != "" {
			return options{}, errors.Errorf("cannot listen at %q: must be IP:PORT, such as 10.1.1.20:7681 or [fd00::20]:7681", text)
		}
		o.Listen = append(o.Listen, address)
	}
	return o, nil
}

// split splits a list at its commas.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
