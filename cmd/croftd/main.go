// Command croftd is the node: one binary whose commands are the whole node,
// its modules, and the operator's orders to it.
package main

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/croft-edge/croft/cmd/croftd/internal/command"
	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
	"github.com/croft-edge/croft/pkg/node"
)

// Set when the binary is linked.
var (
	version = "dev"
	commit  = "unknown"
)

func main() {
	runtime.MemProfileRate = 0 // the profile of the heap, which nobody reads, would take 2 MB of a node's memory
	// A hangup has a node reload, and may be sent to all of its processes: it ends none of them. It is caught, not ignored: programs that
	// they execute, such as hooks, would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	os.Exit(command.Main(node.Version{Version: version, Commit: commit}, modules.All(), os.Args, os.Stdout, os.Stderr))
}
