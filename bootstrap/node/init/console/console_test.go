package console

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a console on a pseudo-terminal.
type desk struct {
	t       *testing.T
	master  *os.File
	path    string
	actions chan Action

	mu   sync.Mutex
	view View
	out  bytes.Buffer
}

func (d *desk) set(change func(*View)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.view)
}

// written is what was written since the last call.
func (d *desk) written() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.out.String()
}

func (d *desk) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.out.Reset()
}

// wait waits until something was written.
func (d *desk) wait(what string) string {
	d.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if got := d.written(); strings.Contains(got, what) {
			return got
		}
		time.Sleep(5 * time.Millisecond)
	}
	d.t.Fatalf("%q isn't written, but %q", what, d.written())
	return ""
}

func (d *desk) press(keys string) {
	d.t.Helper()
	if _, err := d.master.WriteString(keys); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) resize(width, height uint16) {
	d.t.Helper()
	if err := pty.Setsize(d.master, &pty.Winsize{Cols: width, Rows: height}); err != nil {
		d.t.Fatal(err)
	}
}

// sit runs a console on a pseudo-terminal until the test's end.
func sit(t *testing.T, lines bool, change func(*Config)) *desk {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, master: master, path: slave.Name(), actions: make(chan Action, 4), view: healthy()}
	d.resize(80, 25)
	c := Config{
		Terminals: []Terminal{{Path: d.path, Lines: lines}}, Actions: d.actions, Log: zerolog.New(zerolog.NewTestWriter(t)),
		View:  func() View { d.mu.Lock(); defer d.mu.Unlock(); return d.view },
		Logs:  func(program string, _ int) []string { return []string{"line of " + program} },
		every: 10 * time.Millisecond, idle: time.Minute,
	}
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, read := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(read)
		in := make([]byte, 64<<10)
		for {
			n, err := master.Read(in)
			if err != nil {
				return
			}
			d.mu.Lock()
			d.out.Write(in[:n])
			d.mu.Unlock()
		}
	}()
	go func() { done <- Run(ctx, c) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the console doesn't end")
		}
		slave.Close()
		<-read
		master.Close()
	})
	return d
}

// rows are the numbers of the lines that were written.
func rows(text string) (out []string) {
	for _, m := range regexp.MustCompile(`\x1b\[(\d+);1H`).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// TestOnlyChangedLinesAreWritten, and all of them after a change of the size.
func TestOnlyChangedLinesAreWritten(t *testing.T) {
	d := sit(t, false, nil)
	first := d.wait(keysLine)
	if !strings.HasPrefix(first, begin) || !strings.Contains(first, "9fUL33FFZhbQsBUtHjVkPQjhwGpq5ZvXYSAf5YdRXeQd") || len(rows(first)) < 17 {
		t.Errorf("at first %q is written", first)
	}
	d.reset()
	time.Sleep(100 * time.Millisecond) // ten looks
	if got := d.written(); got != "" {
		t.Errorf("though nothing has changed, %q is written", got)
	}
	d.set(func(v *View) { v.Door = "198.51.100.4:9178" })
	d.wait("198.51.100.4:9178")
	time.Sleep(50 * time.Millisecond)
	if got := d.written(); strings.Join(rows(got), " ") != "5" || got != "\x1b[5;1H\x1b[KDoor       198.51.100.4:9178" {
		t.Errorf("for one line %q is written", got)
	}
	d.reset()
	d.resize(132, 43)
	got := d.wait("\x1b[43;1H\x1b[K" + keysLine)
	if !strings.HasPrefix(got, begin) || !strings.Contains(got, strings.Repeat("-", 132)) {
		t.Errorf("after a change of the size %q is written", got)
	}
}

func TestOperatorAtAScreen(t *testing.T) {
	d := sit(t, false, nil)
	d.wait(keysLine)
	d.press("l")
	d.wait("3. containerd")
	d.press("\x1b")
	time.Sleep(sequenceIn / 5) // as on a slow line
	d.press("[B\r")
	d.wait("line of container")
	d.reset()
	d.press("\x1b")
	d.wait("Up, down and Enter")
	d.press("qsr")
	d.wait("To restart this machine type yes")
	d.press("yes")
	d.wait("yes_")
	select {
	case a := <-d.actions:
		t.Fatalf("without Enter %+v is done", a)
	default:
	}
	d.press("\r")
	if a := <-d.actions; a.Kind != Reboot || a.Terminal != d.path {
		t.Errorf("%+v is done", a)
	}
	d.wait("about to restart")
}

// TestShell holds that the terminal is as it was while a shell has it, and the console's afterwards.
func TestShell(t *testing.T) {
	d := sit(t, false, func(c *Config) { c.Shell = true })
	d.wait("s shell")
	if flags := local(t, d.path); flags&(unix.ICANON|unix.ECHO|unix.ISIG) != 0 {
		t.Errorf("the console's terminal has the flags %x", flags)
	}
	d.press("s")
	a := <-d.actions
	if a.Kind != Shell || a.Terminal != d.path {
		t.Fatalf("%+v is done", a)
	}
	if flags := local(t, d.path); flags&(unix.ICANON|unix.ECHO|unix.ISIG) != unix.ICANON|unix.ECHO|unix.ISIG {
		t.Errorf("the shell's terminal has the flags %x", flags)
	}
	d.wait(end)
	d.reset()
	d.set(func(v *View) { v.Door = "198.51.100.4:9178" })
	time.Sleep(100 * time.Millisecond)
	if got := d.written(); got != "" {
		t.Errorf("the console writes %q between", got)
	}
	a.Done()
	a.Done()
	d.wait("198.51.100.4:9178")
}

// local are a terminal's local flags.
func local(t *testing.T, path string) uint32 {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return s.Lflag
}

// TestQuestionIsForgotten holds that a question that nobody answers isn't left to whoever comes next.
func TestQuestionIsForgotten(t *testing.T) {
	d := sit(t, false, func(c *Config) { c.idle = 200 * time.Millisecond })
	d.wait(keysLine)
	d.press("pyes")
	d.wait("yes_")
	d.reset()
	d.wait(keysLine)
	d.press("\r")
	select {
	case a := <-d.actions:
		t.Errorf("%+v is done", a)
	case <-time.After(50 * time.Millisecond):
	}
}

// TestStoppedTerminal holds that one that takes nothing doesn't keep the console from its end, and shows everything once it takes again.
func TestStoppedTerminal(t *testing.T) {
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	d, err := openDevice(slave.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	began := time.Now()
	for err = nil; err == nil; {
		err = d.write(bytes.Repeat([]byte("x"), 4096))
	}
	if took := time.Since(began); !os.IsTimeout(err) || took > 2*writeIn {
		t.Errorf("the write took %s: %v", took, err)
	}
}

func TestLines(t *testing.T) {
	d := sit(t, true, nil)
	got := d.wait("keys: ")
	if !strings.Contains(got, "croft: READY") || strings.Contains(got, "\x1b") || strings.Contains(strings.ReplaceAll(got, "\r\n", ""), "\n") {
		t.Errorf("%q is printed", got)
	}
	d.reset()
	d.set(func(v *View) { v.Uptime += time.Hour; v.Load[0] = 3; v.Now = v.Now.Add(time.Hour) })
	time.Sleep(100 * time.Millisecond)
	if got := d.written(); got != "" {
		t.Errorf("for nothing important %q is printed", got)
	}
	d.set(func(v *View) { v.Problems = []Problem{{Failing, "storage", "it is full"}} })
	d.wait("!! storage: it is full")
	d.reset()
	d.press("x")
	d.press("\r")
	d.wait("croft: READY")
	d.press("p")
	d.wait("To power off")
	d.press("yes\r")
	if a := <-d.actions; a.Kind != PowerOff {
		t.Errorf("%+v is done", a)
	}
	d.press("\x1b")
}

// TestLinesAreFew holds how often summaries are printed: again after a time, and not for each change of what changes all the time.
func TestLinesAreFew(t *testing.T) {
	l := newLine()
	start, printed := time.Now(), 0
	good, bad := healthy(), away()
	for i := range 720 { // an hour
		v := good
		if i%2 == 1 {
			v = bad
		}
		if l.text(scene{view: v}, false, start.Add(time.Duration(i)*5*time.Second)) != "" {
			printed++
		}
	}
	if printed < 60 || printed > 82 {
		t.Errorf("%d summaries an hour of what changes each 5 seconds", printed)
	}
	l, printed = newLine(), 0
	for i := range 720 {
		if l.text(scene{view: good}, false, start.Add(time.Duration(i)*5*time.Second)) != "" {
			printed++
		}
	}
	if printed != 6 {
		t.Errorf("%d summaries an hour of a healthy node", printed)
	}
}

// TestTerminalsThatAreNotThere are given up, and don't keep the others from being used.
func TestTerminalsThatAreNotThere(t *testing.T) {
	d := sit(t, false, func(c *Config) {
		c.Terminals = append([]Terminal{{Path: t.TempDir() + "/tty9"}, {Path: os.DevNull, Lines: true}}, c.Terminals...)
	})
	d.wait(keysLine)
	if err := Run(t.Context(), Config{}); err == nil || !strings.HasPrefix(err.Error(), "cannot show the console") {
		t.Errorf("a console without a view: %v", err)
	}
}

// TestHostileScreenIsWrittenPlain holds that nothing but the console's own sequences reaches the terminal.
func TestHostileScreenIsWrittenPlain(t *testing.T) {
	var s screen
	own := regexp.MustCompile(`\x1b(\(B\x0f|\[0m|\[r|\[9;0\]|\[14;0\]|\[13\]|\[2J|\[\?25l|\[\d+;1H\x1b\[K|\[7m|\[1m)`)
	text := own.ReplaceAllString(string(s.draw(Render(hostile(), 132, 43), 132, 43)), "")
	l := newLine()
	text += strings.ReplaceAll(l.text(scene{view: hostile()}, false, time.Now()), "\n", "")
	m := scene{menu: menu{mode: reading, program: hostile().Kernel}, logs: []string{hostile().Kernel}}
	text += strings.ReplaceAll(l.text(m, false, time.Now()), "\n", "")
	if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }); i >= 0 {
		t.Errorf("%q is written", text[i:min(i+40, len(text))])
	}
}
