package web_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/croft-edge/croft/cmd/croft-init/internal/web"
)

func asClose(err error, end *websocket.CloseError) bool { return errors.As(err, end) }

// get requests a path with a Host and headers.
func (w *world) get(method, path, host string, header http.Header) (*http.Response, string) {
	w.Helper()
	r, err := http.NewRequestWithContext(w.context(), method, w.url(path), nil)
	if err != nil {
		w.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if host != "" {
		r.Host = host
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.Fatal(err)
	}
	return answer, string(body)
}

func TestThePageLoadsNothingFromElsewhere(t *testing.T) {
	w := newWorld(t, nil)
	seen := map[string]bool{}
	todo := []string{"/"}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		answer, body := w.get("GET", path, "", nil)
		if answer.StatusCode != http.StatusOK || len(body) == 0 {
			t.Fatalf("GET %s: %s", path, answer.Status)
		}
		header(t, answer, path)
		for _, place := range foreign(body) {
			t.Errorf("%s speaks of another place: %s", path, place)
		}
		for _, line := range strings.Split(body, "\n") {
			for _, mark := range []string{`href="`, `src="`, `from ".`, `import ".`} {
				if _, rest, ok := strings.Cut(line, mark); ok {
					name, _, _ := strings.Cut(rest, `"`)
					todo = append(todo, "/"+strings.TrimPrefix(name, "/"))
				}
			}
		}
	}
	for _, want := range []string{"/style.css", "/page.mjs", "/csp.mjs", "/terminal.mjs", "/xterm/xterm.css", "/xterm/xterm.mjs", "/xterm/addon-fit.mjs", "/xterm/addon-unicode11.mjs"} {
		if !seen[want] {
			t.Errorf("the page doesn't load %s", want)
		}
	}
}

// foreign are the places elsewhere that a file names. These aren't places, or are named in comments only.
func foreign(body string) []string {
	harmless := []string{
		`ws://" + location.host + "/ws`, "http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/svg", "http://bellard.org/jslinux/", "https://github.com/chjj/term.js",
	}
	for _, place := range harmless {
		body = strings.ReplaceAll(body, place, "")
	}
	return regexp.MustCompile(`[a-zA-Z]*://.{0,40}|["'(]//[a-z].{0,40}|url\(.{0,40}|@import.{0,40}`).FindAllString(body, -1)
}

// TestVendoredFiles holds the files of xterm.js to the pinned values, by which bootstrap/xterm fetches them.
func TestVendoredFiles(t *testing.T) {
	raw, err := os.ReadFile("xterm.json")
	if err != nil {
		t.Fatal(err)
	}
	var pinned struct {
		Packages []struct {
			Name, Version string
			Files         []struct{ Name, SHA256 string }
		}
	}
	if err := json.Unmarshal(raw, &pinned); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, p := range pinned.Packages {
		for _, file := range p.Files {
			want[file.Name] = file.SHA256
		}
	}
	files, err := os.ReadDir("page/xterm")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile("page/xterm/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != want[file.Name()] {
			t.Errorf("%s has the SHA-256 %s, must have %q: make xterm fetches it", file.Name(), got, want[file.Name()])
		}
		delete(want, file.Name())
	}
	if len(want) != 0 {
		t.Errorf("files are missing: %v", want)
	}
}

func header(t *testing.T, answer *http.Response, path string) {
	t.Helper()
	policy := answer.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self' ws://" + answer.Request.Host, "frame-ancestors 'none'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("%s: the policy %q lacks %q", path, policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") {
		t.Errorf("%s: the policy %q allows what is unsafe", path, policy)
	}
	for name, want := range map[string]string{"Cache-Control": "no-store", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s: %s is %q, must be %q", path, name, got, want)
		}
	}
	if got := answer.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/") {
		t.Errorf("%s: content type %q", path, got)
	}
}

func TestForeignNamesAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	port := w.address.Port()
	for host, want := range map[string]int{
		"":                               http.StatusOK,
		fmt.Sprint("box:", port):         http.StatusOK,
		fmt.Sprint("rebind.test:", port): http.StatusMisdirectedRequest,
		fmt.Sprint("localhost:", port):   http.StatusMisdirectedRequest,
		fmt.Sprint("127.0.0.2:", port):   http.StatusMisdirectedRequest,
	} {
		answer, body := w.get("GET", "/", host, nil)
		if answer.StatusCode != want {
			t.Errorf("host %q: %s, must be %d", host, answer.Status, want)
		}
		if want != http.StatusOK && strings.Contains(body, "box") {
			t.Errorf("host %q learns a name: %s", host, body)
		}
	}
}

func TestForeignPagesGetNoTerminal(t *testing.T) {
	w := newWorld(t, nil)
	for _, origin := range []string{"", "null", "http://evil.example", "https://" + w.address.String(), fmt.Sprint("http://box:", w.address.Port())} {
		h := http.Header{}
		if origin != "" {
			h.Set("Origin", origin)
		}
		conn, answer, err := websocket.Dial(w.context(), w.url("/ws"), &websocket.DialOptions{HTTPHeader: h})
		if err == nil {
			conn.CloseNow()
			t.Errorf("origin %q gets a terminal", origin)
			continue
		}
		if answer == nil || answer.StatusCode != http.StatusForbidden {
			t.Errorf("origin %q: %v", origin, err)
		}
	}
	foreign := "rebind.test:" + fmt.Sprint(w.address.Port())
	_, answer, err := websocket.Dial(w.context(), w.url("/ws"), &websocket.DialOptions{Host: foreign, HTTPHeader: http.Header{"Origin": {"http://" + foreign}}})
	if err == nil || answer == nil || answer.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("a name that leads to us gets a terminal: %v", err)
	}
	if n := len(w.terminals); n != 0 {
		t.Errorf("%d shells were started", n)
	}
}

func TestOnlyReadingIsAnswered(t *testing.T) {
	w := newWorld(t, nil)
	for method, want := range map[string]int{"POST": 405, "PUT": 405, "DELETE": 405, "OPTIONS": 405, "HEAD": 200} {
		if answer, _ := w.get(method, "/", "", nil); answer.StatusCode != want {
			t.Errorf("%s: %s, must be %d", method, answer.Status, want)
		}
	}
	for _, path := range []string{"/nothing", "/../pages.go", "/page/index.html", "//", "/index.html/"} {
		if answer, _ := w.get("GET", path, "", nil); answer.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %s, must be 404", path, answer.Status)
		}
	}
	if answer, _ := w.get("GET", "/ws", "", http.Header{"Origin": {"http://" + w.address.String()}}); answer.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("GET /ws without an upgrade: %s", answer.Status)
	}
	r, err := http.NewRequestWithContext(w.context(), http.MethodGet, w.url("/"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	if answer, err := http.DefaultClient.Do(r); err == nil { // else the connection was closed
		answer.Body.Close()
		if answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a huge header: %s", answer.Status)
		}
	}
}

func TestItListensNowhereElse(t *testing.T) {
	w := newWorld(t, nil)
	other := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), w.address.Port())
	if conn, err := net.DialTimeout("tcp", other.String(), patience); err == nil {
		conn.Close()
		t.Errorf("it answers at %s", other)
	}
	if w.log.Len() != 0 {
		t.Errorf("it writes into the container's log: %s", w.log)
	}
}

func TestAPortThatIsTakenIsTriedAgain(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().(*net.TCPAddr).AddrPort()
	w := newWorld(t, func(c *web.Config) { c.Listen = []netip.AddrPort{address} })
	w.address = address
	if got := w.log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "cannot serve the terminal at "+address.String()) {
		t.Errorf("it must say once what is wrong, says %q", got)
	}
	taken.Close()
	for deadline := time.Now().Add(patience); ; {
		answer, err := http.Get(w.url("/"))
		if err == nil {
			answer.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestTooManyConnectionsAreClosed(t *testing.T) {
	w := newWorld(t, nil)
	var held []net.Conn
	defer func() {
		for _, conn := range held {
			conn.Close()
		}
	}()
	refused := 0
	for range 100 {
		conn, err := net.DialTimeout("tcp", w.address.String(), patience)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, conn)
	}
	for _, conn := range held { // an accepted connection waits some seconds for a request
		conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			refused++
		}
	}
	if refused < 30 {
		t.Errorf("%d of 100 connections were refused, 36 must be", refused)
	}
	if w.log.Len() != 0 {
		t.Errorf("it writes into the container's log: %s", w.log)
	}
}
