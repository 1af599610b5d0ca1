package machine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/e2e/powercut"
)

// Machine is a machine. It is switched off when its test ends.
type Machine struct {
	tb     testing.TB
	config Config
	// careless are the disks that lose what wasn't flushed, by their serial numbers.
	careless map[string]*powercut.Disk
	// boots counts how often it was switched on.
	boots int
	cmd   *exec.Cmd
	ended chan struct{}
}

// New makes a machine that is switched off.
func New(tb testing.TB, c Config) *Machine {
	tb.Helper()
	m := &Machine{tb: tb, config: c, careless: map[string]*powercut.Disk{}}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	for i, d := range c.Disks {
		if !d.Careless {
			continue
		}
		disk, err := powercut.Serve(d.Image, m.path("disk", strconv.Itoa(i)))
		if err != nil {
			tb.Fatal(err)
		}
		m.careless[d.Serial] = disk
	}
	if c.Boot.UEFI {
		if err := copyFile(m.path("vars", ""), ovmf+"VARS_4M.fd"); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(m.close)
	return m
}

// path is a file of the machine's.
func (m *Machine) path(kind, which string) string {
	return filepath.Join(m.config.Dir, m.config.Name+"-"+kind+which)
}

func (m *Machine) close() {
	if m.tb.Failed() {
		m.show()
	}
	m.kill()
	for _, d := range m.careless {
		if err := d.Close(); err != nil {
			m.tb.Error(err)
		}
	}
}

// PowerOn switches the machine on.
func (m *Machine) PowerOn() {
	m.tb.Helper()
	if m.Running() {
		m.tb.Fatalf("machine %s is on", m.config.Name)
	}
	m.boots++
	if err := m.start(); err != nil {
		m.tb.Fatalf("cannot start machine %s: %v", m.config.Name, err)
	}
}

func (m *Machine) start() error {
	c := m.config
	args := c.arguments(func(d Disk) string {
		if d.Careless {
			for i := range c.Disks {
				if c.Disks[i].Serial == d.Serial {
					return "nbd+unix:///?socket=" + m.path("disk", strconv.Itoa(i))
				}
			}
		}
		return d.Image
	})
	args = append(args, c.Boot.arguments()...)
	if c.Boot.UEFI {
		args = append(args, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+ovmf+"CODE_4M.fd",
			"-drive", "if=pflash,format=raw,unit=1,file="+m.path("vars", ""))
	}
	_ = os.Remove(m.path("qmp", ""))
	args = append(args, "-chardev", "file,id=console,path="+m.consoleFile(m.boots), "-serial", "chardev:console",
		"-chardev", "socket,id=qmp,server=on,wait=off,path="+m.path("qmp", ""), "-mon", "chardev=qmp,mode=control")
	if c.Time != nil {
		args = append(args, "-rtc", "base="+c.Time().UTC().Format("2006-01-02T15:04:05"))
	}
	errs, err := os.OpenFile(m.path("qemu.log", ""), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer errs.Close()
	var files []*os.File
	if c.Network.Bridge != "" {
		// The interface goes with QEMU.
		name := "tap-" + c.Name
		tap := c.Namespace.Tap(name)
		defer tap.Close()
		c.Namespace.Attach(name, c.Network.Bridge)
		files = append(files, tap)
	}
	args = append(args, c.Network.arguments(3)...)
	line := append([]string{"qemu-system-x86_64"}, args...)
	if c.Namespace != nil {
		line = append([]string{"nsenter", "--net=" + c.Namespace.Path(), "--"}, line...)
	}
	cmd := exec.Command(line[0], line[1:]...) //nolint:noctx // it is killed when the test ends
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = errs, errs, files
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.cmd, m.ended = cmd, make(chan struct{})
	go func(ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait() // how it ended is in its log
	}(m.ended)
	return nil
}

// Running reports whether the machine is on.
func (m *Machine) Running() bool {
	if m.cmd == nil {
		return false
	}
	select {
	case <-m.ended:
		return false
	default:
		return true
	}
}

// kill ends QEMU and whatever it has started, at once.
func (m *Machine) kill() {
	if m.cmd != nil {
		_ = unix.Kill(-m.cmd.Process.Pid, unix.SIGKILL)
		<-m.ended
	}
}

// Cut cuts the machine's power. Its careless disks lose any part of what wasn't flushed, as random decides; all others keep it, because
// it is in the host's memory.
func (m *Machine) Cut(random *rand.Rand) {
	m.tb.Helper()
	if !m.Running() {
		m.tb.Fatalf("machine %s is off already:\n%s", m.config.Name, tail(m.Console()))
	}
	m.kill()
	for _, d := range m.config.Disks {
		disk := m.careless[d.Serial]
		if disk == nil {
			continue
		}
		loss, err := disk.Cut(random)
		if err != nil {
			m.tb.Fatal(err)
		}
		m.tb.Logf("power cut: disk %s of machine %s lost %d of %d sectors that weren't flushed", d.Serial, m.config.Name, loss.Lost, loss.Lost+loss.Kept)
	}
}

// PowerButton presses the power button and waits until the machine has switched itself off.
func (m *Machine) PowerButton(limit time.Duration) {
	m.tb.Helper()
	if _, err := m.command("system_powerdown", nil); err != nil {
		m.tb.Fatal(err)
	}
	select {
	case <-m.ended:
	case <-time.After(limit):
		m.tb.Fatalf("machine %s isn't off %s after its power button was pressed:\n%s", m.config.Name, limit, tail(m.Console()))
	}
}

// Sync writes what careless disks have cached to their images, which then can be looked at; the machine is off.
func (m *Machine) Sync() {
	m.tb.Helper()
	for _, d := range m.careless {
		if err := d.Sync(); err != nil {
			m.tb.Fatal(err)
		}
	}
}

// SetLink plugs the network's cable in, or pulls it out, of a machine that is on; it is in when the machine is switched on.
func (m *Machine) SetLink(in bool) {
	m.tb.Helper()
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end) && m.Running(); <-time.After(20 * time.Millisecond) {
		if _, err = m.command("set_link", map[string]any{"name": "net", "up": in}); err == nil {
			return
		}
	}
	m.tb.Fatalf("cannot change the cable of machine %s: %v", m.config.Name, err)
}

// SetTime sets what the battery's clock shows from the next start on.
func (m *Machine) SetTime(now func() time.Time) { m.config.Time = now }

// SetBoot sets what the machine boots from the next start on.
func (m *Machine) SetBoot(b Boot) { m.config.Boot = b }

func (m *Machine) consoleFile(boot int) string { return m.path("console", strconv.Itoa(boot)) }

// Console is what the machine has printed since it was switched on.
func (m *Machine) Console() string {
	m.tb.Helper()
	raw, err := os.ReadFile(m.consoleFile(m.boots))
	if err != nil && !os.IsNotExist(err) {
		m.tb.Fatal(err)
	}
	return string(raw)
}

// Until waits until the machine has printed text since it was switched on.
func (m *Machine) Until(limit time.Duration, text string) {
	m.tb.Helper()
	for end := time.Now().Add(limit); ; {
		if strings.Contains(m.Console(), text) {
			return
		}
		if !m.Running() || time.Now().After(end) {
			m.tb.Fatalf("machine %s doesn't print %q within %s (on: %v):\n%s", m.config.Name, text, limit, m.Running(), tail(m.Console()))
		}
		<-time.After(100 * time.Millisecond)
	}
}

// Prints reports whether the machine has printed text since it was switched on.
func (m *Machine) Prints(text string) bool {
	m.tb.Helper()
	return strings.Contains(m.Console(), text)
}

// show logs the console and keeps all consoles, a picture of the screen and what the processors do, for a test that has failed.
func (m *Machine) show() {
	log, _ := os.ReadFile(m.path("qemu.log", ""))
	m.tb.Logf("--- QEMU of machine %s\n%s--- its console\n%s", m.config.Name, log, tail(m.Console()))
	if m.config.Keep == "" {
		return
	}
	folder := filepath.Join(m.config.Keep, strings.ReplaceAll(m.tb.Name(), "/", "-"))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		m.tb.Error(err)
		return
	}
	if m.Running() {
		if err := m.picture(filepath.Join(folder, m.config.Name+".png")); err != nil {
			m.tb.Logf("no picture of the screen of machine %s: %v", m.config.Name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, m.config.Name+"-processors.txt"), []byte(m.Processors()), 0o600); err != nil {
			m.tb.Log(err)
		}
	}
	for boot := 1; boot <= m.boots; boot++ {
		if err := copyFile(filepath.Join(folder, fmt.Sprintf("%s-console-%d.log", m.config.Name, boot)), m.consoleFile(boot)); err != nil {
			m.tb.Log(err)
		}
	}
	m.tb.Logf("consoles of machine %s are in %s", m.config.Name, folder)
}

// Processors shows the registers of the processors several times, and their interrupts: of a machine that hangs nothing else is to be had.
func (m *Machine) Processors() string {
	out := strings.Builder{}
	for _, command := range []string{"info registers -a", "info registers -a", "info registers -a", "info lapic 0", "info lapic 1", "info irq"} {
		text, err := m.ask(command)
		fmt.Fprintf(&out, "--- %s: %v\n%s\n", command, err, text)
	}
	return out.String()
}

// Picture makes a picture of the screen, a PNG file.
func (m *Machine) Picture(file string) {
	m.tb.Helper()
	if err := m.picture(file); err != nil {
		m.tb.Fatalf("cannot picture the screen of machine %s: %v", m.config.Name, err)
	}
}

func (m *Machine) picture(file string) error {
	full, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	_, err = m.command("screendump", map[string]string{"filename": full, "format": "png"})
	return err
}

// tail is the end of a console, for a message.
func tail(text string) string {
	const most = 8000
	return text[max(0, len(text)-most):]
}
