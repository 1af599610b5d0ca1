//go:build boot

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/e2e/machine"
	"github.com/croft-edge/croft/internal/testing/nodetest"
)

var (
	image = flag.String("image", "", "the folder of the image")
	keep  = flag.String("keep", "", "a folder for consoles and pictures of screens of tests that have failed")
	seed  = flag.Uint64("seed", 0, "what power cuts lose and when they come; 0 is another one each time")
)

// built are what all tests use.
var built struct {
	nodetest.Binaries
	// agent is a disk with package agent.
	agent string
}

// agentLabel is the label of the agent's disk.
const agentLabel = "croft-agent"

// Limits of waits: a machine is emulated, on a busy processor.
const patience = 4 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("/var/tmp", "croft-boot-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := build(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build builds the programs and the agent's disk.
func build(ctx context.Context, dir string) (err error) {
	for _, name := range []string{"vmlinuz", "initrd", "root.squashfs", "croft.iso", "croft.img"} {
		if _, err := os.Stat(filepath.Join(*image, name)); err != nil {
			return fmt.Errorf("cannot use -image: %w; make test-boot gives it", err)
		}
	}
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	fmt.Printf("power cuts: -seed %d\n", *seed)
	if built.Binaries, err = nodetest.Build(ctx, dir, "-trimpath"); err != nil {
		return err
	}
	files := filepath.Join(dir, "agent")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(files, "run"), "github.com/croft-edge/croft/bootstrap/node/e2e/agent")
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	built.agent = filepath.Join(dir, "agent.iso")
	return machine.ISO(ctx, built.agent, agentLabel, files)
}
