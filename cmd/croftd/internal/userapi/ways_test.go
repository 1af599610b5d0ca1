package userapi

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/sign"
)

// Also where the node allows no user namespaces, or no namespaces at all, the process starts, is nobody
// and has no capabilities.
func TestProcessRightsInEachWay(t *testing.T) {
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	d := &Door{Config: Config{NodeID: key.ID(), Limits: Limits{}.orDefault()}}
	setup, err := json.Marshal(d.setup())
	if err != nil {
		t.Fatal(err)
	}
	for i, attr := range ways() {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			ours, theirs, err := wire.Pair(unix.SOCK_SEQPACKET)
			if err != nil {
				t.Fatal(err)
			}
			control := wire.ControlOf(ours)
			defer control.Close()
			_ = ours.SetReadDeadline(time.Now().Add(time.Minute))
			cmd := exec.Command("/proc/self/exe", "door")
			cmd.Stderr, cmd.ExtraFiles, cmd.SysProcAttr, cmd.Env = os.Stderr, []*os.File{theirs}, attr, []string{}
			cmd.SysProcAttr.Pdeathsig = 0 // this thread may end earlier
			err = cmd.Start()
			theirs.Close()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			file, err := listener.(*net.TCPListener).File()
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if err := control.Send(wire.Message{Kind: wire.Settings, Body: setup, File: file}); err != nil {
				t.Fatal(err)
			}
			if m, err := control.FromDoor(); err != nil || m.Kind != wire.Hello {
				t.Fatalf("got %+v, %v", m, err)
			}
			raw, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2", "Uid:\t1878982655\t1878982655"} {
				if !strings.Contains(string(raw), want) {
					t.Errorf("it isn't so: %q in\n%s", want, raw)
				}
			}
		})
	}
}
