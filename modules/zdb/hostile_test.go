package zdb_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/modules/zdb/handover"
	"github.com/croft-edge/croft/modules/zdb/socket"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// serve does with each connection to a socket what it is told to, until end is
// called or the test is over.
func serve(t *testing.T, path string, do func(conn *net.UnixConn)) (end func()) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	l, err := socket.Listen(path, 0o600)
	must(t, err)
	var serving sync.WaitGroup
	var mu sync.Mutex
	open := map[*net.UnixConn]bool{}
	serving.Go(func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			serving.Go(func() {
				do(conn)
				conn.Close()
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
			})
		}
	})
	end = sync.OnceFunc(func() {
		l.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		serving.Wait()
	})
	t.Cleanup(end)
	return end
}

// hang reads and says nothing, until the other end closes.
func hang(conn *net.UnixConn) {
	for b := make([]byte, 4096); ; {
		if _, err := conn.Read(b); err != nil {
			return
		}
	}
}

// say answers whatever comes with that.
func say(text string) func(conn *net.UnixConn) {
	return func(conn *net.UnixConn) {
		for b := make([]byte, 4096); ; {
			if _, err := conn.Read(b); err != nil {
				return
			}
			tell(conn, text)
		}
	}
}

// greetings is a zdb that greets and has nothing.
func greetings(conn *net.UnixConn) {
	tell(conn, "{\"version\":1,\"listeners\":0}\n")
	hang(conn)
}

const goodInfo = "# namespace\nname: default\npublic: yes\npassword: no\ndata_size_bytes: 0\ndata_limits_bytes: 0\nmode: userkey\n"

// bulk is a string as a zdb sends it.
func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// takes is a zdb that takes every listener, and has none when it is asked.
func takes(conn *net.UnixConn) {
	tell(conn, "{\"version\":1,\"listeners\":0}\n")
	say("{\"ok\":true}\n")(conn)
}

// brokenAdmins are what a zdb that isn't one may do on its admin socket.
func brokenAdmins() map[string]func(conn *net.UnixConn) {
	return map[string]func(conn *net.UnixConn){
		"hangs":            hang,
		"closes":           func(*net.UnixConn) {},
		"garbage":          say("\x00\xff\x00\xff garbage\r\n"),
		"a huge string":    say("$9223372036854775807\r\n"),
		"a large string":   say("$1000000000\r\n"),
		"a huge array":     say("*1000000000\r\n"),
		"arrays in arrays": say(strings.Repeat("*1\r\n", 1<<20)),
		"no end": func(conn *net.UnixConn) {
			for {
				if _, err := conn.Write([]byte(strings.Repeat("x", 1<<16))); err != nil {
					return
				}
			}
		},
		"a number":           say(":1\r\n"),
		"nothing":            say("$-1\r\n"),
		"a list":             say("*1\r\n$1\r\nx\r\n"),
		"half a reply":       say("$100\r\nname: "),
		"an empty namespace": say(bulk("")),
		"another namespace":  say(bulk(strings.Replace(goodInfo, "default", "other", 1))),
		"a mode unheard":     say(bulk(strings.Replace(goodInfo, "userkey", "x", 1))),
	}
}

// brokenHandovers are the same on its handover socket.
func brokenHandovers() map[string]func(conn *net.UnixConn) {
	return map[string]func(conn *net.UnixConn){
		"hangs":           hang,
		"closes":          func(*net.UnixConn) {},
		"garbage":         func(conn *net.UnixConn) { tell(conn, "\x00\xff\n"); hang(conn) },
		"no end":          func(conn *net.UnixConn) { tell(conn, strings.Repeat("x", 1<<20)); hang(conn) },
		"another time":    func(conn *net.UnixConn) { tell(conn, "{\"version\":2}\n"); hang(conn) },
		"takes nothing":   greetings,
		"greets and goes": func(conn *net.UnixConn) { tell(conn, "{\"version\":1,\"listeners\":0}\n") },
		"refuses": func(conn *net.UnixConn) {
			tell(conn, "{\"version\":1,\"listeners\":0}\n")
			if line, _ := bufio.NewReader(conn).ReadString('\n'); line != "" {
				tell(conn, "{\"error\":\"cannot take it: hush\"}\n")
			}
			hang(conn)
		},
	}
}

// most is how long a broken zdb may hold anybody up.
const most = 14 * time.Second

func TestABrokenZDBIsNotAttached(t *testing.T) {
	for name, do := range brokenAdmins() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			spec := node.ZDBServerSpec{Container: one, Mode: workload.ZDBUser, Data: w.data(one)}
			serve(t, filepath.Join(spec.Data, "admin.sock"), do)
			serve(t, filepath.Join(spec.Data, "handover.sock"), greetings)
			w.notAttached(spec)
		})
	}
	for name, do := range brokenHandovers() {
		if name == "takes nothing" || name == "greets and goes" || name == "refuses" {
			continue // it answers, at first
		}
		t.Run("handover "+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			spec := node.ZDBServerSpec{Container: one, Mode: workload.ZDBUser, Data: w.data(one)}
			serve(t, filepath.Join(spec.Data, "admin.sock"), say(bulk(goodInfo)))
			serve(t, filepath.Join(spec.Data, "handover.sock"), do)
			w.notAttached(spec)
		})
	}
}

func (w *world) notAttached(spec node.ZDBServerSpec) {
	w.t.Helper()
	start := time.Now()
	_, err := w.stub.Attach(w.t.Context(), spec)
	if node.KindOf(err) != node.Transient || !strings.HasPrefix(err.Error(), "cannot attach zdb "+one+": ") || len(err.Error()) > 1000 {
		w.t.Errorf("it is %v (%s)", err, node.KindOf(err))
	}
	if took := time.Since(start); took > most {
		w.t.Errorf("it took %s", took)
	}
	all, err := w.stub.Servers(w.t.Context())
	must(w.t, err)
	if len(all) != 0 {
		w.t.Errorf("in hand are %+v", all)
	}
}

// TestZDBBreaksWhileAttached while it is in hand shows, costs nobody else anything, and
// is right again once it is.
func TestZDBBreaksWhileAttached(t *testing.T) {
	check := func(t *testing.T, socketName string, do func(conn *net.UnixConn)) {
		t.Parallel()
		w := newWorld(t)
		w.attach("zdb-good", workload.ZDBUser)
		spec := w.start(one, workload.ZDBUser)
		before := w.attachSpec(spec)
		w.kill(one)
		// The other socket is one of a zdb that seems to be well.
		does := map[string]func(*net.UnixConn){"admin.sock": say("*1\r\n$7\r\ndefault\r\n"), "handover.sock": takes}
		does[socketName] = do
		var ends []func()
		for name, do := range does {
			ends = append(ends, serve(t, filepath.Join(spec.Data, name), do))
		}
		start := time.Now()
		all, err := w.stub.Servers(t.Context())
		must(t, err)
		if len(all) != 2 || all[0].Drift != "" || all[1].Drift == "" || all[1].Port != before.Port || time.Since(start) > most {
			t.Errorf("in hand are %+v after %s", all, time.Since(start))
		}
		if _, err := w.stub.Create(t.Context(), node.ZDBNamespaceSpec{Container: "zdb-good", Name: "5-1", Size: 1}); err != nil {
			t.Error(err)
		}
		if socketName == "admin.sock" {
			start = time.Now()
			_, err := w.stub.Create(t.Context(), node.ZDBNamespaceSpec{Container: one, Name: "5-1", Size: 1, Password: "hush"})
			if kind := node.KindOf(err); kind != node.Transient || strings.Contains(err.Error(), "hush") || time.Since(start) > most {
				t.Errorf("it is %v after %s", err, time.Since(start))
			}
		}
		for _, end := range ends {
			end()
		}
		w.start(one, workload.ZDBUser)
		must(t, ping(before.Port))
		w.drift(one, "")
		if after := w.server(one); after != before {
			t.Errorf("it is %+v, was %+v", after, before)
		}
	}
	admins := brokenAdmins()
	for _, name := range []string{"hangs", "closes", "garbage", "a huge string", "arrays in arrays", "no end", "half a reply"} {
		t.Run(name, func(t *testing.T) { check(t, "admin.sock", admins[name]) })
	}
	for name, do := range brokenHandovers() {
		t.Run("handover "+name, func(t *testing.T) { check(t, "handover.sock", do) })
	}
}

// TestBrokenZDBsLeakNothing: each is tried again and again while it is broken.
func TestBrokenZDBsLeakNothing(t *testing.T) {
	w := newWorld(t)
	before := descriptors(t)
	admins, handovers := brokenAdmins(), brokenHandovers()
	for _, name := range []string{"closes", "garbage", "a huge string", "arrays in arrays", "no end"} {
		spec := node.ZDBServerSpec{Container: one, Mode: workload.ZDBUser, Data: w.data(name)}
		serve(t, filepath.Join(spec.Data, "admin.sock"), admins[name])
		for range 20 {
			w.notAttachedBeside(spec)
		}
	}
	for _, name := range []string{"closes", "garbage", "no end", "another time"} {
		spec := node.ZDBServerSpec{Container: one, Mode: workload.ZDBUser, Data: w.data("handover-" + name)}
		serve(t, filepath.Join(spec.Data, "admin.sock"), say(bulk(goodInfo)))
		serve(t, filepath.Join(spec.Data, "handover.sock"), handovers[name])
		for range 20 {
			w.notAttachedBeside(spec)
		}
	}
	const listeners = 5 + 2*4 // what these zdbs listen on
	eventually(t, func() bool { return descriptors(t) <= before+listeners }, func() any { return fmt.Sprint(descriptors(t), " were ", before) })
}

// TestZDBEndsAtOnce isn't asked again and again.
func TestZDBEndsAtOnce(t *testing.T) {
	w := newWorld(t)
	spec := w.start(one, workload.ZDBUser)
	w.attachSpec(spec)
	w.kill(one)
	var asked sync.WaitGroup
	var mu sync.Mutex
	times := 0
	asked.Add(1)
	serve(t, filepath.Join(spec.Data, "handover.sock"), func(conn *net.UnixConn) {
		tell(conn, "{\"version\":1,\"listeners\":0}\n")
		if line, _ := bufio.NewReader(conn).ReadString('\n'); line == "" {
			return
		}
		tell(conn, "{\"ok\":true}\n")
		mu.Lock()
		defer mu.Unlock()
		if times++; times == 1 {
			asked.Done()
		}
	})
	asked.Wait()
	<-time.After(4 * time.Second)
	mu.Lock()
	defer mu.Unlock()
	if times > 30 {
		t.Errorf("it was asked %d times in 4 s", times)
	}
}

// TestLinksAreNotFollowed: a zdb may write to the folder of its sockets, the
// module may do what it likes on the node.
func TestLinksAreNotFollowed(t *testing.T) {
	w := newWorld(t)
	spec := w.start("zdb-real", workload.ZDBUser)
	w.attachSpec(spec)
	must(t, os.MkdirAll(w.data(one), 0o700))
	for _, name := range []string{"admin.sock", "handover.sock"} {
		must(t, os.Symlink(filepath.Join(spec.Data, name), filepath.Join(w.data(one), name)))
	}
	w.notAttachedBeside(node.ZDBServerSpec{Container: one, Mode: workload.ZDBUser, Data: w.data(one)})
}

func (w *world) notAttachedBeside(spec node.ZDBServerSpec) {
	w.t.Helper()
	if at, err := w.stub.Attach(w.t.Context(), spec); node.KindOf(err) != node.Transient {
		w.t.Errorf("it is %+v, %v", at, err)
	}
}

// listenElsewhere makes a listening socket in another network namespace.
func listenElsewhere(t *testing.T, port uint16) *os.File {
	t.Helper()
	type made struct {
		fd  int
		err error
	}
	out := make(chan made)
	go func() {
		runtime.LockOSThread() // it ends with the goroutine, and its namespace
		var m made
		if m.err = unix.Unshare(unix.CLONE_NEWNET); m.err == nil {
			m.fd, m.err = unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		}
		if m.err == nil {
			m.err = unix.Bind(m.fd, &unix.SockaddrInet6{Port: int(port)})
		}
		if m.err == nil {
			m.err = unix.Listen(m.fd, 1)
		}
		out <- m
	}()
	m := <-out
	must(t, m.err)
	f := os.NewFile(uintptr(m.fd), "elsewhere")
	t.Cleanup(func() { f.Close() })
	return f
}

// TestForeignListeners aren't believed: one that a zdb has made itself, in
// its own namespace, isn't the node's.
func TestForeignListeners(t *testing.T) {
	w := newWorld(t)
	before := w.attach(one, workload.ZDBUser)
	w.close()
	w.kill(one)
	port := before.Port
	foreign := listenElsewhere(t, port)
	var mu sync.Mutex
	var taken []*os.File
	s, err := handover.Listen(handover.ServerConfig{
		Path: filepath.Join(before.Data, "handover.sock"), Log: zerolog.Nop(),
		Take: func(f *os.File) error {
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, f)
			return nil
		},
		Listeners: func() ([]*os.File, error) {
			raw, err := foreign.SyscallConn()
			if err != nil {
				return nil, err
			}
			var fd int
			err = raw.Control(func(of uintptr) { fd, _ = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 3) })
			return []*os.File{os.NewFile(uintptr(fd), "foreign")}, err
		},
	})
	must(t, err)
	serve(t, filepath.Join(before.Data, "admin.sock"), say("*1\r\n$7\r\ndefault\r\n"))
	running := make(chan error)
	ctx := t.Context()
	go func() { running <- s.Run(ctx) }()
	t.Cleanup(func() { must(t, <-running) })
	w.open()
	// The port is the node's own again, and the zdb was given that.
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", nodeIPv4, port), patience)
	must(t, err)
	conn.Close()
	mu.Lock()
	if len(taken) == 0 {
		t.Error("the zdb wasn't given a listener")
	}
	for _, f := range taken {
		f.Close()
	}
	mu.Unlock()
	if at := w.server(one); !strings.Contains(at.Drift, fmt.Sprintf("it doesn't have the listener of its port %d", port)) {
		t.Errorf("it is %+v", at)
	}
}

// TestPasswordsDontLeak wants no password in a log or in a kept file.
func TestPasswordsDontLeak(t *testing.T) {
	w := newWorld(t)
	w.cfg.Log = w.cfg.Log.Level(zerolog.TraceLevel)
	w.restart()
	w.attach(one, workload.ZDBUser)
	const password = "hush-hush-42"
	spec := node.ZDBNamespaceSpec{Container: one, Name: "5-1", Size: 1, Password: password}
	made, err := w.stub.Create(t.Context(), spec)
	must(t, err)
	if strings.Contains(fmt.Sprintf("%+v", made), password) {
		t.Errorf("made %+v", made)
	}
	w.kill(one)
	if _, err := w.stub.Create(t.Context(), spec); err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("it is %v", err)
	}
	kept, err := os.ReadFile(w.recordPath(one))
	must(t, err)
	for where, text := range map[string]string{"log": w.log.String(), "record": string(kept), "zdb's log": w.zdbs[one].said.String()} {
		if strings.Contains(text, password) {
			t.Errorf("the %s has it: %s", where, text)
		}
	}
}

// TestFromWithin: a zdb can reach nothing, not even where it is reached.
func TestFromWithin(t *testing.T) {
	w := newWorld(t)
	at := w.attach(one, workload.ZDBUser)
	must(t, ping(at.Port))
	pid := w.zdbs[one].cmd.Process.Pid
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	must(t, err)
	defer ns.Close()
	done := make(chan map[string]error)
	go func() {
		runtime.LockOSThread() // it ends with the goroutine
		out := map[string]error{"enter": unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)}
		for _, ip := range []string{"127.0.0.1", nodeIPv4, "::1", nodeIPv6} {
			fd, err := connect(ip, at.Port)
			if err == nil {
				unix.Close(fd)
			}
			out[ip] = err
		}
		done <- out
	}()
	out := <-done
	must(t, out["enter"])
	delete(out, "enter")
	for ip, err := range out {
		if err != syscall.ENETUNREACH && err != syscall.ECONNREFUSED && err != syscall.EADDRNOTAVAIL { //nolint:errorlint // it is the kernel's
			t.Errorf("%s: %v", ip, err)
		}
	}
}

// connect connects on the thread that calls it.
func connect(ip string, port uint16) (int, error) {
	address := net.ParseIP(ip)
	domain := unix.AF_INET6
	var to unix.Sockaddr = &unix.SockaddrInet6{Port: int(port), Addr: [16]byte(address.To16())}
	if v4 := address.To4(); v4 != nil {
		domain, to = unix.AF_INET, &unix.SockaddrInet4{Port: int(port), Addr: [4]byte(v4)}
	}
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, to); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}
