package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// ask sends a request to the agent's handler.
func ask(t *testing.T, method, path string, body []byte, status int) []byte {
	t.Helper()
	w := httptest.NewRecorder()
	routes().ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(body)))
	if w.Code != status {
		t.Fatalf("%s %s: status %d, want %d: %s", method, path, w.Code, status, w.Body)
	}
	return w.Body.Bytes()
}

func TestRun(t *testing.T) {
	for name, c := range map[string]struct {
		command Command
		want    Outcome
	}{
		"input and both outputs": {Command{Args: []string{"sh", "-c", "cat; echo oh >&2; exit 3"}, Input: "in"}, Outcome{3, "in", "oh\n"}},
		"a program's path":       {Command{Args: []string{"/bin/echo", "x"}}, Outcome{0, "x\n", ""}},
		"too long":               {Command{Args: []string{"sleep", "60"}, Seconds: 1}, Outcome{Code: -1}},
	} {
		raw, err := json.Marshal(c.command)
		if err != nil {
			t.Fatal(err)
		}
		var got Outcome
		if err := json.Unmarshal(ask(t, http.MethodPost, "/run", raw, http.StatusOK), &got); err != nil || got != c.want {
			t.Errorf("%s: %+v, want %+v (%v)", name, got, c.want, err)
		}
	}
	ask(t, http.MethodPost, "/run", []byte("{}"), http.StatusInternalServerError)
}

func TestFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a file")
	at := "/file?path=" + url.QueryEscape(path)
	ask(t, http.MethodGet, at, nil, http.StatusInternalServerError)
	ask(t, http.MethodPut, at, []byte("content"), http.StatusOK)
	if got := ask(t, http.MethodGet, at, nil, http.StatusOK); string(got) != "content" {
		t.Errorf("the file has %q", got)
	}
	folder := filepath.Dir(path)
	if err := os.Mkdir(filepath.Join(folder, "a folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	var files map[string]string
	raw := ask(t, http.MethodGet, "/folder?path="+url.QueryEscape(folder), nil, http.StatusOK)
	if err := json.Unmarshal(raw, &files); err != nil || len(files) != 1 || files["a file"] != "content" {
		t.Errorf("the folder has %s, %v", raw, err)
	}
}

func TestGet(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
	}))
	defer server.Close()
	if got := ask(t, http.MethodGet, "/get?url="+url.QueryEscape(server.URL), nil, http.StatusOK); string(got) != "not ready\n" {
		t.Errorf("the answer is %q", got)
	}
	ask(t, http.MethodPost, "/sync", nil, http.StatusOK)
}

func TestProcesses(t *testing.T) {
	cmd := exec.Command("sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	var all []Process
	if err := json.Unmarshal(ask(t, http.MethodGet, "/processes", nil, http.StatusOK), &all); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range all {
		if p.PID == cmd.Process.Pid {
			found = p.Parent == os.Getpid() && p.Start > 0
		}
	}
	if !found {
		t.Errorf("process %d isn't among %+v", cmd.Process.Pid, all)
	}
	ask(t, http.MethodPost, "/kill?signal=9&pid="+strconv.Itoa(cmd.Process.Pid), nil, http.StatusOK)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the process ended by %v", err)
	}
	ask(t, http.MethodPost, "/kill?signal=9&pid=0", nil, http.StatusInternalServerError)
}
