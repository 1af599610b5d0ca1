// Command croft-init is the first process (PID 1) of interactive containers: it
// runs the container's program, collects orphans, passes signals on, and serves a
// web terminal.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/croft-edge/croft/cmd/croft-init/internal/pid1"
)

// version and commit are set when it is built.
var (
	version = "dev"
	commit  = "unknown"
)

const usage = `usage: croft-init [--listen IP:PORT[,IP:PORT…]] [--name NAME[,NAME…]] [-- PROGRAM ARGUMENT…]

  --listen   where the web terminal answers, and nowhere else; without it there is none
  --name     names that it may be asked for by, beside its addresses and the host's name
  --version  say which version this is

Runs PROGRAM and ends as it does; without one it ends on SIGTERM.
`

// What it uses counts against the container's memory.
const (
	memoryLimit = 24 << 20
	gcPercent   = 25
	threads     = 2
)

func main() {
	debug.SetMemoryLimit(memoryLimit)
	debug.SetGCPercent(gcPercent)
	runtime.GOMAXPROCS(min(threads, runtime.GOMAXPROCS(0)))

	config, err := parse(os.Args[1:])
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
	os.Exit(pid1.Run(config))
}

var errVersion = errors.New("asked for the version")

func parse(args []string) (pid1.Config, error) {
	var listen, names string
	var askVersion bool
	flags := flag.NewFlagSet("croft-init", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&listen, "listen", "", "")
	flags.StringVar(&names, "name", "", "")
	flags.BoolVar(&askVersion, "version", false, "")
	if err := flags.Parse(args); err != nil {
		return pid1.Config{}, err
	}
	if askVersion {
		return pid1.Config{}, errVersion
	}
	config := pid1.Config{Args: flags.Args(), Log: os.Stderr, Names: split(names)}
	for _, text := range split(listen) {
		address, err := netip.ParseAddrPort(text)
		if err != nil || address.Port() == 0 || address.Addr().Zone() != "" {
			return pid1.Config{}, fmt.Errorf("cannot listen at %q: must be IP:PORT, such as 10.1.1.20:7681 or [fd00::20]:7681", text)
		}
		config.Listen = append(config.Listen, address)
	}
	return config, nil
}

// split cuts a list at its commas.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
