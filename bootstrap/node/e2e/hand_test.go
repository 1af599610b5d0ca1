//go:build boot

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/e2e/machine"
	"github.com/croft-edge/croft/internal/testing/nodetest"
)

// hand is the test's hand in a booted node: package agent.
type hand struct {
	s *site
	// at is the agent's HOST:PORT.
	at string
}

// process is a process in the node. Start makes it another one than those with its ID before.
type process struct {
	PID, Parent int
	Name        string
	Args        []string
	Start       uint64
}

// is names a process for ever.
func (p process) is() string { return fmt.Sprintf("%d since tick %d", p.PID, p.Start) }

func (h hand) try(method, path string, body []byte) ([]byte, error) {
	out, err := h.s.Do(h.s.Hub.Path(), method, "http://"+h.at+path, string(body), 90*time.Second)
	return []byte(out), err
}

func (h hand) must(method, path string, body []byte) []byte {
	h.s.Helper()
	out, err := h.try(method, path, body)
	if err != nil {
		h.s.Fatalf("the agent at %s: %s %s: %v", h.at, method, path, err)
	}
	return out
}

// processes are all processes.
func (h hand) processes() []process {
	h.s.Helper()
	var out []process
	if err := json.Unmarshal(h.must(http.MethodGet, "/processes", nil), &out); err != nil {
		h.s.Fatal(err)
	}
	return out
}

// find are the processes of a program whose first arguments are these.
func (h hand) find(program string, first ...string) []process {
	h.s.Helper()
	return slices.DeleteFunc(h.processes(), func(p process) bool {
		if len(p.Args) < 1+len(first) || filepath.Base(p.Args[0]) != program {
			return true
		}
		return !slices.Equal(p.Args[1:1+len(first)], first)
	})
}

// the is the only process of a program; false when there are none or several.
func (h hand) the(program string, first ...string) (process, bool) {
	h.s.Helper()
	found := h.find(program, first...)
	if len(found) != 1 {
		return process{}, false
	}
	return found[0], true
}

func (h hand) kill(p process) {
	h.s.Helper()
	h.signal(p, syscall.SIGKILL)
}

func (h hand) signal(p process, signal syscall.Signal) {
	h.s.Helper()
	h.must(http.MethodPost, fmt.Sprintf("/kill?signal=%d&pid=%d", signal, p.PID), nil)
}

// outcome is what became of a command.
type outcome struct {
	Code           int
	Output, Errors string
}

func (h hand) tryRun(args ...string) (outcome, error) {
	body, err := json.Marshal(struct{ Args []string }{args})
	if err != nil {
		return outcome{}, err
	}
	var out outcome
	raw, err := h.try(http.MethodPost, "/run", body)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("%s in the node: code %d: %s%s", strings.Join(args, " "), out.Code, out.Output, out.Errors)
	}
	return out, err
}

func (h hand) file(path string) string {
	h.s.Helper()
	return string(h.must(http.MethodGet, "/file?path="+url.QueryEscape(path), nil))
}

// keepLogs writes the node's logs and its status into a folder, for a test that has failed.
func (h hand) keepLogs(folder string) error {
	raw, err := h.try(http.MethodGet, "/folder?path=/var/log/croft", nil)
	if err != nil {
		return err
	}
	files := map[string]string{}
	if err := json.Unmarshal(raw, &files); err != nil {
		return err
	}
	status, err := h.tryRun("croftd", "status")
	files["status.txt"] = fmt.Sprintf("%s\n%v\n", status.Output, err)
	kernel, err := h.tryRun("dmesg")
	files["dmesg.txt"] = fmt.Sprintf("%s\n%v\n", kernel.Output, err)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sync has the node write all to its disks.
func (h hand) sync() {
	h.s.Helper()
	h.must(http.MethodPost, "/sync", nil)
}

// status is the answer of croftd status.
func (h hand) status() (nodetest.Status, error) {
	var out nodetest.Status
	is, err := h.tryRun("croftd", "status", "-o", "json")
	if err == nil {
		err = json.Unmarshal([]byte(is.Output), &out)
	}
	return out, err
}

// ready reports whether the node takes reservations, and what it answers.
func (h hand) ready() (string, bool) {
	raw, err := h.try(http.MethodGet, "/get?url="+url.QueryEscape("http://127.0.0.1:9177/readyz"), nil)
	if err != nil {
		return err.Error(), false
	}
	var is nodetest.Readiness
	return string(raw), json.Unmarshal(raw, &is) == nil && is.Ready
}

// memory is a value of /proc/meminfo in MiB.
func (h hand) memory(name string) int {
	h.s.Helper()
	for line := range strings.Lines(h.file("/proc/meminfo")) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == name+":" {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				h.s.Fatal(err)
			}
			return kib / 1024
		}
	}
	h.s.Fatalf("/proc/meminfo has no %s", name)
	return 0
}

// uptime is the time since the kernel's start.
func (h hand) uptime() time.Duration {
	h.s.Helper()
	text, _, _ := strings.Cut(h.file("/proc/uptime"), " ")
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		h.s.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}

func handAt(s *site, ip string) hand { return hand{s, ip + ":" + strconv.Itoa(machine.AgentPort)} }
