// Command agent is the tests' hand inside of a booted node, which has no ssh: init starts it from a disk of the tests when the kernel's
// command line names that disk. It answers HTTP:
//
//	GET  /processes         all processes: JSON, a list of Process
//	POST /kill?pid=&signal= sends a signal
//	POST /run               runs a command, JSON as Command, and answers with an Outcome
//	GET  /file?path=        a file's content
//	PUT  /file?path=        replaces a file's content
//	GET  /get?url=          another server's answer, of any status
//	POST /sync              writes all to the disks
//
// It is no part of a node's image.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// listen is where the agent listens: machine.AgentPort.
const listen = ":7777"

func main() {
	fmt.Println("croft test agent listens on " + listen)
	go announce()
	server := &http.Server{Addr: listen, Handler: routes(), ReadHeaderTimeout: time.Minute}
	fmt.Println("croft test agent:", server.ListenAndServe())
	os.Exit(1)
}

// announce says on the machine's console that a program of the tests' workloads runs, once: a machine without a network has no other way.
func announce() {
	waits := []string{"server", "zdb"}
	for range time.Tick(time.Second) {
		all, err := processes()
		if err != nil {
			continue
		}
		waits = slices.DeleteFunc(waits, func(name string) bool {
			runs := slices.ContainsFunc(all, func(p Process) bool { return p.Name == name })
			if runs {
				say(fmt.Sprintf("croft test agent: %s runs", name))
			}
			return runs
		})
		if len(waits) == 0 {
			return
		}
	}
}

// say writes a line on the console.
func say(line string) {
	console, err := os.OpenFile("/dev/console", os.O_WRONLY, 0)
	if err != nil {
		fmt.Println(line, err)
		return
	}
	defer console.Close()
	fmt.Fprintln(console, line)
}

// Process is a process of the machine. Start is in clock ticks since the machine's start: with the ID it names a process for ever.
type Process struct {
	PID, Parent int
	Name        string
	Args        []string
	Start       uint64
}

// Command is a command to run.
type Command struct {
	Args  []string
	Input string
	// Seconds bounds it; 0 is a minute.
	Seconds int
}

// Outcome is what became of a command. Code is -1 for one that didn't start or was killed.
type Outcome struct {
	Code           int
	Output, Errors string
}

func routes() http.Handler {
	mux := http.NewServeMux()
	answer := func(pattern string, f func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			out, err := f(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			if raw, ok := out.([]byte); ok {
				_, _ = w.Write(raw)
				return
			}
			_ = json.NewEncoder(w).Encode(out)
		})
	}
	answer("GET /processes", func(*http.Request) (any, error) { return processes() })
	answer("POST /kill", func(r *http.Request) (any, error) {
		pid, err := strconv.Atoi(r.FormValue("pid"))
		number, nerr := strconv.Atoi(r.FormValue("signal"))
		if err = errors.Join(err, nerr); err != nil || pid < 1 {
			return nil, fmt.Errorf("cannot kill process %q: %w", r.FormValue("pid"), err)
		}
		return struct{}{}, syscall.Kill(pid, syscall.Signal(number))
	})
	answer("POST /run", run)
	answer("GET /file", func(r *http.Request) (any, error) { return os.ReadFile(r.FormValue("path")) })
	answer("GET /folder", func(r *http.Request) (any, error) { return folder(r.FormValue("path")) })
	answer("PUT /file", func(r *http.Request) (any, error) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		return struct{}{}, os.WriteFile(r.URL.Query().Get("path"), raw, 0o600)
	})
	answer("GET /get", get)
	answer("POST /sync", func(*http.Request) (any, error) {
		syscall.Sync()
		return struct{}{}, nil
	})
	return mux
}

// folder are the texts of a folder's regular files, by name.
func folder(path string) (map[string]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(path, entry.Name()))
		if err != nil {
			return nil, err
		}
		out[entry.Name()] = string(raw)
	}
	return out, nil
}

func get(r *http.Request) (any, error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.FormValue("url"), nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(io.LimitReader(res.Body, 16<<20))
}

func run(r *http.Request) (any, error) {
	var c Command
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
		return nil, err
	}
	if len(c.Args) == 0 {
		return nil, errors.New("cannot run nothing")
	}
	limit := time.Minute
	if c.Seconds > 0 {
		limit = time.Duration(c.Seconds) * time.Second
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	// The agent's own PATH may be empty.
	if path, err := lookPath(c.Args[0]); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	cmd.WaitDelay = time.Second
	cmd.Stdin = strings.NewReader(c.Input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	outcome := Outcome{Output: out.String(), Errors: errs.String()}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		outcome.Code = exit.ExitCode()
	case err != nil:
		outcome.Code, outcome.Errors = -1, outcome.Errors+err.Error()
	}
	return outcome, nil
}

func lookPath(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", os.ErrNotExist
}

func processes() ([]Process, error) {
	found, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	out := []Process{}
	for _, dir := range found {
		p, err := process(dir)
		if err == nil { // the others have ended meanwhile
			out = append(out, p)
		}
	}
	return out, nil
}

func process(dir string) (Process, error) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Process{}, err
	}
	args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return Process{}, err
	}
	// The name, in parentheses, may have spaces and parentheses itself.
	text := string(stat)
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return Process{}, fmt.Errorf("cannot read %s/stat", dir)
	}
	rest := strings.Fields(text[end+1:])
	if len(rest) < 20 {
		return Process{}, fmt.Errorf("cannot read %s/stat", dir)
	}
	p := Process{Name: text[open+1 : end]}
	if joined := strings.TrimRight(string(args), "\x00"); joined != "" {
		p.Args = strings.Split(joined, "\x00")
	}
	var errs [3]error
	p.PID, errs[0] = strconv.Atoi(filepath.Base(dir))
	p.Parent, errs[1] = strconv.Atoi(rest[1])
	p.Start, errs[2] = strconv.ParseUint(rest[19], 10, 64)
	return p, errors.Join(errs[:]...)
}
