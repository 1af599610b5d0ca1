package daemon

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croftd/internal/modules"
)

// TestGraphIsCurrent: docs/graph.svg is the graph of the node's controllers. WRITE_DOCS=1 draws it, with Graphviz.
func TestGraphIsCurrent(t *testing.T) {
	d := &daemon{Config: Config{Modules: modules.All(), Log: zerolog.Nop()}, phases: newPhases(), settings: newSettings(Config{})}
	d.StateDir, d.RunDir = t.TempDir(), t.TempDir()
	m := newClients(nil)
	s, err := d.openState(m, d.view(m))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	graph, err := s.graph()
	if err != nil {
		t.Fatal(err)
	}
	dot := []byte(graph.DOT())
	sum := sha256.Sum256(dot)
	mark := []byte("<!-- croft graph " + hex.EncodeToString(sum[:]) + " -->\n")
	path := filepath.Join("..", "..", "..", "..", "docs", "graph.svg")
	if os.Getenv("WRITE_DOCS") != "" {
		draw := exec.Command("dot", "-Tsvg")
		draw.Stdin = bytes.NewReader(dot)
		svg, err := draw.Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(svg, mark...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	drawn, err := os.ReadFile(path)
	if err != nil || !bytes.HasSuffix(drawn, mark) {
		t.Errorf("%s isn't the graph of the controllers (%v): run this test with WRITE_DOCS=1", path, err)
	}
}
