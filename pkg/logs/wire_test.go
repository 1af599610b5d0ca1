package logs

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// scripted is a carrier of an earlier version: it answers each operation with the
// line that was recorded of that version, and records the requests.
func scripted(t *testing.T, run string, answers map[string]string) (requests chan string) {
	t.Helper()
	folder := kind().Folder(run)
	must(t, folder.Make())
	listener, err := net.Listen("unix", folder.Socket())
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	requests = make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			line = strings.TrimSuffix(line, "\n")
			requests <- line
			for op, answer := range answers {
				if strings.Contains(line, fmt.Sprintf("%q:%q", "op", op)) {
					_, _ = conn.Write([]byte(answer + "\n"))
				}
			}
			_ = conn.Close()
		}
	}()
	return requests
}

// Carriers outlive upgrades of the agent: the agent's requests are as an earlier
// version made them, byte for byte, and it reads that version's answers.
func TestWireOfEarlierVersions(t *testing.T) {
	run := t.TempDir()
	requests := scripted(t, run, map[string]string{
		"info": `{"version":2,"info":{"pid":7,"protocol":2,"version":"v1","started":"2023-11-14T22:13:20Z","memory":9,"containers":2,"dir":"/d","size":200000,"files":4,"limits":{"x":1}}}`,
		"open": `{"version":2,"fifos":{"stdout":"/o","stderr":"/e"}}`,
		"drop": `{"version":2}`,
		"list": `{"version":2,"ids":["1-1"]}`,
	})
	client, err := Ensure(t.Context(), Config{RunDir: run, Dir: "/d", Size: 200000, Files: 4, Log: zerolog.Nop()})
	must(t, err)
	defer client.Close()
	info, err := client.Info(t.Context())
	if err != nil || info.PID != 7 || info.Protocol != 2 || info.Version != "v1" || info.Started.Unix() != 1700000000 || info.Memory != 9 || info.Containers != 2 || info.Limits["x"] != 1 {
		t.Errorf("info %+v (%v)", info, err)
	}
	if fifos, err := client.Open(t.Context(), "1-1", "u"); err != nil || fifos != (FIFOs{Stdout: "/o", Stderr: "/e"}) {
		t.Errorf("FIFOs %+v (%v)", fifos, err)
	}
	must(t, client.Drop(t.Context(), "1-1", true))
	if ids, err := client.List(t.Context()); err != nil || !slices.Equal(ids, []string{"1-1"}) {
		t.Errorf("IDs %v (%v)", ids, err)
	}
	for _, want := range []string{
		`{"version":2,"op":"info"}`,
		`{"version":2,"op":"info"}`,
		`{"version":2,"op":"open","id":"1-1","user":"u"}`,
		`{"version":2,"op":"drop","id":"1-1","keep_files":true}`,
		`{"version":2,"op":"list"}`,
	} {
		if got := <-requests; got != want {
			t.Errorf("asked\n%s, want\n%s", got, want)
		}
	}
}
