package container

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/modules/container/image/unpack"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/logs"
)

// carry as the first argument makes this program a log carrier.
const carry = "carry-logs"

// tool is the path of the program that containers run.
var tool string

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == carry {
		err := logs.Serve(context.Background(), logs.ServeConfig{RunDir: os.Args[2], Dir: os.Args[3], Version: "test", Level: zerolog.InfoLevel})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "unpack" {
		os.Exit(unpack.Serve())
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	leave, err := cgroup.Nest("croft-test-" + random())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer leave()
	dir, err := os.MkdirTemp("", "croft-tool-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	tool = filepath.Join(dir, "tool")
	c := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", tool, "./testdata/tool")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the tool: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func random() string {
	var raw [4]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}
