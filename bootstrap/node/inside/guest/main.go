// Command guest runs croft's tests in a booted node. The node's init runs it from the disk of the tests, as run. It makes a root folder of
// the node's own and of the tools that tests call, runs the tests in it one after the other, and switches the machine off. Called
// by the name go, it is what the tests call to build programs: it has the host build them.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	var err error
	if filepath.Base(os.Args[0]) == "go" {
		err = build(os.Args[1:])
	} else {
		err = runTests()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
		os.Exit(1)
	}
}
