package main

import (
	"context"
	"debug/elf"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/modules/zdb/handover"
)

// The flags with which zos starts 0-db, on a free port.
func TestAsZosStartsIt(t *testing.T) {
	dir := shortDir(t)
	data, sock := filepath.Join(dir, "data"), filepath.Join(dir, "zdb.sock")
	p := begin(t, command("--data", data, "--index", data, "--mode", "user", "--listen", "::", "--port", "0", "--socket", sock, "--dualnet"))
	_, port, err := net.SplitHostPort(p.at["tcp"])
	must(t, err)
	for _, at := range [][2]string{{"tcp", "127.0.0.1:" + port}, {"tcp", "[::1]:" + port}, {"unix", sock}} {
		c := dial(t, at[0], at[1])
		if got, err := redis.String(c.Do("SET", "key", at[1])); got != "key" || err != nil {
			t.Errorf("%v: SET says %q, %v", at, got, err)
		}
		if got, err := redis.String(c.Do("GET", "key")); got != at[1] || err != nil {
			t.Errorf("%v: GET says %q, %v", at, got, err)
		}
	}
	p.orderly()
	if _, err := os.Lstat(sock); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	p = launch(t, "--data", data)
	if got, err := redis.String(p.client().Do("GET", "key")); got != sock || err != nil {
		t.Errorf("after a restart GET says %q, %v", got, err)
	}
}

func TestRedisCLI(t *testing.T) {
	p := launch(t, "--data", t.TempDir(), "--mode", "seq")
	_, port, err := net.SplitHostPort(p.at["tcp"])
	must(t, err)
	cli := func(args ...string) string {
		out, err := exec.Command("redis-cli", append([]string{"-p", port}, args...)...).CombinedOutput()
		must(t, err)
		return strings.TrimSpace(string(out))
	}
	if got := cli("PING"); got != "PONG" {
		t.Errorf("PING: %q", got)
	}
	if got := cli("SET", "", "value"); got != strings.Repeat("\x00", 8) {
		t.Errorf("SET: %q", got)
	}
	if got := cli("--no-raw", "GET", "none"); got != "(nil)" {
		t.Errorf("GET: %q", got)
	}
	if got := cli("INFO"); !strings.Contains(got, "0-db (zdb)") {
		t.Errorf("INFO: %q", got)
	}
}

func TestInvalidFlags(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--port", "65536"}, "cannot use --port 65536: it must be from 0 to 65535"},
		{[]string{"--mode", "other"}, `Mode is "other"`},
		{[]string{"--compat", "v3"}, `Compat is "v3"`},
		{[]string{"--maxsize", "much"}, `cannot use --maxsize "much": it must be a number of bytes`},
		{[]string{"--log-level", "loud"}, `cannot use --log-level "loud": it must be debug, info, warn or error`},
		{[]string{"--log-level", ""}, `cannot use --log-level "": it must be`},
		{[]string{"--max-connections", "-1"}, "MaxConnections is -1"},
		{[]string{"--max-connections-per-source", "-1"}, "MaxSource is -1"},
		{[]string{"--max-namespaces", "65537"}, "MaxNamespaces is 65537, must be from 1 to 65536"},
		{[]string{"--max-buffers", "1"}, "MaxBuffers is 1"},
		{[]string{"--protect"}, "Protect is set and Admin is empty"},
		{[]string{"--no-listen"}, "cannot serve without a listener"},
		{[]string{"--listen", "192.0.2.1"}, "cannot listen: "},
		{[]string{"--metrics", "nowhere"}, "cannot serve --metrics nowhere"},
		{[]string{"--handover", filepath.Join(dir, "none", "s")}, "cannot listen on "},
		{[]string{"--socket", filepath.Join(dir, "none", "s")}, "cannot listen on "},
		{[]string{"data"}, `cannot understand "data"`},
	} {
		args := append([]string{"--data", filepath.Join(dir, "data"), "--port", "0"}, c.args...)
		if got := fails(t, args...); !strings.Contains(got, c.want) {
			t.Errorf("%q: %s, want %q", c.args, got, c.want)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "1": 1, "1024": 1024, "3K": 3 << 10, "256MiB": 256 << 20, "7g": 7 << 30, "1TiB": 1 << 40, "5B": 5} {
		if got, err := size(text); got != want || err != nil {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1.5G", "K", "9223372036854775808", "9000000TiB", "1 G", "1KB", "0x10"} {
		if got, err := size(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}

func TestSecondServerOfAFolder(t *testing.T) {
	data := t.TempDir()
	p := launch(t, "--data", data)
	if got := fails(t, "--data", data, "--port", "0"); !strings.Contains(got, "cannot") {
		t.Errorf("a second one says %s", got)
	}
	if got, err := redis.String(p.client().Do("PING")); got != "PONG" || err != nil {
		t.Errorf("the first one says %q, %v", got, err)
	}
}

func TestAdminSocket(t *testing.T) {
	dir := shortDir(t)
	sock := filepath.Join(dir, "admin.sock")
	p := launch(t, "--data", filepath.Join(dir, "data"), "--admin-socket", sock)
	info, err := os.Stat(sock)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has %v, %v; want 0600", info.Mode(), err)
	}
	admin, anybody := dial(t, "unix", sock), p.client()
	if _, err := anybody.Do("NSNEW", "space"); err == nil || err.Error() != "Permission denied" {
		t.Errorf("NSNEW of anybody: %v", err)
	}
	if _, err := admin.Do("NSNEW", "space"); err != nil {
		t.Errorf("NSNEW of an admin: %v", err)
	}
	if _, err := anybody.Do("SET", "k", "v"); err == nil {
		t.Error("anybody may write to default")
	}
	if _, err := anybody.Do("SELECT", "space"); err != nil {
		t.Error(err)
	}
	if _, err := anybody.Do("SET", "k", "v"); err != nil {
		t.Errorf("SET in a namespace: %v", err)
	}
}

func TestPasswordFromTheEnvironment(t *testing.T) {
	cmd := command("--data", t.TempDir(), "--listen", "127.0.0.1", "--port", "0")
	cmd.Env = append(cmd.Env, "ZDB_ADMIN=secret")
	p := begin(t, cmd)
	c := p.client()
	if _, err := c.Do("NSNEW", "space"); err == nil {
		t.Error("NSNEW without AUTH works")
	}
	if _, err := c.Do("AUTH", "secret"); err != nil {
		t.Error(err)
	}
	if _, err := c.Do("NSNEW", "space"); err != nil {
		t.Error(err)
	}
}

// A request may have as many arguments as in the 0-db of its version.
func TestArgumentsOfEachVersion(t *testing.T) {
	for compat, most := range map[string]int{"v1": 8, "v2": 1024} {
		p := launch(t, "--data", t.TempDir(), "--compat", compat)
		args := make([]any, most)
		for i := range args {
			args[i] = "x"
		}
		c := p.client()
		if _, err := c.Do("PING", args[1:]...); err != nil {
			t.Errorf("%s: %d arguments: %v", compat, most, err)
		}
		if _, err := c.Do("PING", args...); err == nil || err.Error() != "Too many arguments" {
			t.Errorf("%s: %d arguments: %v", compat, most+1, err)
		}
		p.orderly()
	}
}

// Refusals by limits appear in the metrics, and to an admin.
func TestMetricsOfLimits(t *testing.T) {
	sock := filepath.Join(shortDir(t), "admin.sock")
	p := launch(t, "--data", t.TempDir(), "--metrics", "127.0.0.1:0", "--max-connections-per-source", "1", "--admin-socket", sock)
	first := p.client()
	if _, err := first.Do("PING"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.client().Do("PING"); err != nil {
		t.Errorf("who comes takes the place of who says nothing: %v", err)
	}
	if _, err := first.Do("PING"); err == nil {
		t.Error("there are two of one source")
	}
	page := fetch(t, "http://"+p.at["metrics"]+"/metrics")
	for _, want := range []string{`croft_limit_reached_total{limit="zdb-connections"} 1`, `zdb_connections_closed_total{why="displaced"} 1`} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %q in\n%s", want, page)
		}
	}
	info, err := redis.String(dial(t, "unix", sock).Do("INFO"))
	if err != nil || !strings.HasSuffix(info, "\n# limits\nlimit_reached_zdb-connections: 1\n") {
		t.Errorf("INFO ends with %q, %v", info[len(info)-80:], err)
	}
	if info, _ := redis.String(p.client().Do("INFO")); strings.Contains(info, "limit") {
		t.Error("everybody hears of limits")
	}
}

func TestMetrics(t *testing.T) {
	p := launch(t, "--data", t.TempDir(), "--metrics", "127.0.0.1:0")
	c := p.client()
	for _, args := range [][]any{{"NSNEW", "space"}, {"NSNEW", "odd\xff\"\n"}, {"SET", "k", "value"}, {"GET", "k"}} {
		if _, err := c.Do(args[0].(string), args[1:]...); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	page := fetch(t, "http://"+p.at["metrics"]+"/metrics")
	for _, want := range []string{
		"zdb_build_info{", "zdb_connections 1\n", "zdb_requests_total 4\n", `zdb_commands_total{command="SET"} 1`,
		`zdb_namespace_entries{namespace="default"} 1`, `zdb_namespace_bytes{namespace="default"} 5`, `zdb_namespace_bytes{namespace="space"} 0`,
		`zdb_connections_closed_total{why="idle"} 0`, "process_resident_memory_bytes", "go_goroutines",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("there is no %q in\n%s", want, page)
		}
	}
	p.orderly()
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url)
	must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %s", url, resp.Status, body)
	}
	return string(body)
}

// The node passes its listener to a zdb, and to the restarted zdb.
func TestHandover(t *testing.T) {
	dir := shortDir(t)
	sock := filepath.Join(dir, "handover.sock")
	args := []string{"--data", filepath.Join(dir, "data"), "--no-listen", "--handover", sock}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address, f := listener(t)
	give := func() {
		t.Helper()
		node, err := handover.Dial(ctx, sock)
		must(t, err)
		defer node.Close()
		must(t, node.Give(ctx, f))
	}
	p := begin(t, command(args...))
	if p.at["tcp"] != "" {
		t.Errorf("it listens on %s", p.at["tcp"])
	}
	give()
	if _, err := dial(t, "tcp", address).Do("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	p.orderly()
	// Meanwhile clients queue.
	queued := dial(t, "tcp", address)
	must(t, queued.Send("GET", "k"))
	must(t, queued.Flush())
	begin(t, command(args...))
	give()
	if got, err := redis.String(queued.Receive()); got != "v" || err != nil {
		t.Errorf("who queued got %q, %v", got, err)
	}
}

// The shipped program is one static file, small enough for an image of its own.
func TestShippedBinary(t *testing.T) {
	path := shipped(t)
	info, err := os.Stat(path)
	must(t, err)
	const most = 20_000_000
	t.Logf("zdb has %d bytes", info.Size())
	if info.Size() > most {
		t.Errorf("zdb has %d bytes, at most %d are allowed", info.Size(), most)
	}
	f, err := elf.Open(path)
	must(t, err)
	defer f.Close()
	for _, section := range f.Progs {
		if section.Type == elf.PT_INTERP || section.Type == elf.PT_DYNAMIC {
			t.Errorf("zdb has a %v: it isn't static", section.Type)
		}
	}
}
