// Package wire is what the host and the tests in a booted node exchange: the plan of the tests on their disk, and the requests for
// programs, which the host compiles, because a node has no compiler. A message is its length, four bytes, and JSON.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// What both sides name alike.
const (
	// TestLabel and ScratchLabel are the labels of the disk with the tests and of that which they write to.
	TestLabel    = "croft-test"
	ScratchLabel = "croft-scratch"
	// BuildPort and ResultPort are the names of the virtual machine's ports: for requests of programs, and for what the tests print.
	BuildPort  = "croft.build"
	ResultPort = "croft.result"
	// PlanFile is the plan of the tests on their disk; SourceAt and TestsAt are where the sources and the tests are in the tests' root folder.
	PlanFile = "plan.json"
	SourceAt = "/src"
	TestsAt  = "/tests"
	// Done is the last line of what the tests print.
	Done = "=== all tests have ended"
)

// Plan is what to test.
type Plan struct {
	Packages []Package
	// Arguments are those of each test.
	Arguments []string
	// Within is how long a package may take.
	Within time.Duration
	// Path is the import path of the module.
	Path string
}

// Package is a compiled test.
type Package struct {
	// Folder is the package's, below the module's; Test the file's name; Run is what its tests' names match, empty for all.
	Folder, Test, Run string
}

// Request asks the host for a program.
type Request struct {
	// ID is the request's, which the answer has too.
	ID string
	// Arguments are those of go, but for -o and the file's name.
	Arguments []string
	// Folder is where go was called, below the module's folder; empty when Files has a program's sources.
	Folder string
	Files  map[string][]byte
	// Environment are the settings of go that count.
	Environment []string
}

// Answer is what go has made of it.
type Answer struct {
	ID      string
	Printed string
	Failed  bool
	Program []byte
}

// most is the length of the longest message.
const most = 512 << 20

// Write writes a message.
func Write(w io.Writer, message any) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)) //nolint:gosec // programs are far shorter
	return err
}

// Read reads a message.
func Read(r io.Reader, message any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > most {
		return fmt.Errorf("cannot read a message: it has %d bytes, at most %d are allowed", n, most)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, message)
}
