// Command croftd is the node: one binary whose commands are the whole node,
// its modules, and the operator's orders to it.
package main

import (
	"os"

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
	os.Exit(command.Main(node.Version{Version: version, Commit: commit}, modules.All(), os.Args, os.Stdout, os.Stderr))
}
