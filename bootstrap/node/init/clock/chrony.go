package clock

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/bootstrap/node/init/network/lease"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/clip"
	"github.com/croft-edge/croft/pkg/fielderror"
)

const (
	// pool are Debian's servers, for nodes whose operator and network name none.
	pool = "2.debian.pool.ntp.org"
	// mostServers bounds the servers that are asked.
	mostServers = 8
	// chronycTime is how long chronyd may take to obey.
	chronycTime = 10 * time.Second
	// sources is the folder with the servers, which chronyd reads again on request; sourcesFile is the one in it.
	sources, sourcesFile = "sources", "node.sources"
)

// Config says how chrony is run.
type Config struct {
	// Servers are the operator's, as host or host:port; none for those of the network, or Debian's.
	Servers []string
	// Run is a folder for chrony's socket and configuration, such as /run/chrony; State one that survives a reboot, for the clock's drift.
	Run, State string
	// Untouched has chronyd leave the clock alone, for tests.
	Untouched bool
}

// Validate names the first field that can't be used, and what is allowed.
func (c Config) Validate() error {
	if len(c.Servers) > mostServers {
		return fielderror.New("ntp-servers", fielderror.Words(fmt.Sprint("a list of ", len(c.Servers))), "at most %d servers", mostServers)
	}
	for _, s := range c.Servers {
		if _, err := source(s); err != nil {
			return fielderror.New("ntp-servers", s, "hosts or host:port, such as time.example.org, 192.0.2.1:123 or [2001:db8::1]:123")
		}
	}
	for field, path := range map[string]string{"run": c.Run, "state": c.State} {
		if !filepath.IsAbs(path) || strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' }) {
			return fielderror.New(field, path, "an absolute path without spaces")
		}
	}
	return nil
}

// Chrony is the node's chronyd.
type Chrony struct {
	cfg Config

	mu      sync.Mutex
	network []string
}

// New makes the node's chronyd, which the caller starts.
func New(cfg Config) (*Chrony, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Chrony{cfg: cfg}, nil
}

// Prepare writes what chronyd reads and returns the command that runs it in the foreground. It is called before each start.
func (c *Chrony) Prepare() ([]string, error) {
	for _, dir := range []string{c.cfg.Run, filepath.Join(c.cfg.Run, sources), c.cfg.State} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, errors.Wrapf(err, "cannot make folder %s for chrony", dir)
		}
	}
	// chronyd trusts its folder only if nobody else can enter it.
	if err := os.Chmod(c.cfg.Run, 0o750); err != nil {
		return nil, errors.Wrap(err, "cannot close chrony's folder")
	}
	// The number in the file of a killed chronyd may be another process's by now, and would keep the new one from starting.
	if err := os.Remove(c.pidFile()); err != nil && !os.IsNotExist(err) {
		return nil, errors.Wrap(err, "cannot remove chrony's old file")
	}
	if err := atomicfile.WriteFile(c.configFile(), []byte(c.text()), 0o644); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writeSources(); err != nil {
		return nil, err
	}
	command := []string{"chronyd", "-d", "-f", c.configFile(), "-u", "root"}
	if c.cfg.Untouched {
		command = append(command, "-x")
	}
	return command, nil
}

func (c *Chrony) configFile() string { return filepath.Join(c.cfg.Run, "chrony.conf") }
func (c *Chrony) pidFile() string    { return filepath.Join(c.cfg.Run, "chronyd.pid") }
func (c *Chrony) socket() string     { return filepath.Join(c.cfg.Run, "chronyd.sock") }

// text is chrony's configuration.
//
// makestep: the first three readings may set the clock at once, however far it is off. chrony would else turn it by 8 % at most: a clock
// that is a day behind would be wrong for twelve days, while the kernel calls it kept right, and croft's engine removes data by a clock that
// the kernel calls right (docs/adr/0016-time.md). The step comes with the first answers, before the kernel says so; the engine, which sees a
// jump, judges no date until then. A network that comes hours later changes nothing of it: only readings count.
//
// maxchange: later, a reading that is ten minutes off means a clock or servers that are broken. Two are ignored; at the third chronyd ends and is started
// again by the node, and so may set the clock at once, for the same reason. Ten minutes are also what the engine takes for a jump.
//
// rtcsync has the kernel say that the clock is kept right, which is what the engine asks, and write it into the hardware's clock. There are no leap
// seconds from a time zone's file: the image has none, and servers announce them. chronyd answers nobody's questions: it has one socket, of root's.
func (c *Chrony) text() string {
	return strings.Join([]string{
		"sourcedir " + filepath.Join(c.cfg.Run, sources),
		"driftfile " + filepath.Join(c.cfg.State, "drift"),
		"makestep 1 3",
		"maxchange 600 3 2",
		"maxupdateskew 100.0",
		"rtcsync",
		"port 0",
		"cmdport 0",
		"bindcmdaddress " + c.socket(),
		"pidfile " + c.pidFile(),
		"",
	}, "\n")
}

// Use has chronyd ask the servers that the network names, unless the operator has named some. It may be called before chronyd
// runs, and with the same servers: that has chronyd look for them again, which a network that has come back needs.
func (c *Chrony) Use(ctx context.Context, network []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.network = slices.Clone(network)
	if err := os.MkdirAll(filepath.Join(c.cfg.Run, sources), 0o750); err != nil {
		return errors.Wrap(err, "cannot make folder for chrony's servers")
	}
	if err := c.writeSources(); err != nil {
		return err
	}
	if _, err := os.Stat(c.socket()); err != nil {
		return nil // it reads them when it starts
	}
	for _, order := range []string{"reload sources", "refresh", "online"} {
		if err := c.order(ctx, order); err != nil {
			return err
		}
	}
	if synced, err := Synced(); err == nil && !synced {
		return c.order(ctx, "burst 4/8")
	}
	return nil
}

func (c *Chrony) order(ctx context.Context, order string) error {
	ctx, stop := context.WithTimeout(ctx, chronycTime)
	defer stop()
	args := append([]string{"-h", c.socket()}, strings.Fields(order)...)
	out, err := exec.CommandContext(ctx, "chronyc", args...).CombinedOutput()
	return errors.Wrapf(err, "cannot have chronyd do %q: %s", order, clip.Line(string(out), 200))
}

// writeSources writes the servers; the caller holds the lock.
func (c *Chrony) writeSources() error {
	return atomicfile.WriteFile(filepath.Join(c.cfg.Run, sources, sourcesFile), []byte(serverLines(c.cfg.Servers, c.network)), 0o644)
}

// serverLines are chrony's lines for the operator's servers, or the network's, or Debian's.
func serverLines(operator, network []string) string {
	for _, servers := range [][]string{operator, network} {
		var text strings.Builder
		for _, s := range servers[:min(len(servers), mostServers)] {
			if line, err := source(s); err == nil {
				fmt.Fprintln(&text, line)
			}
		}
		if text.Len() > 0 {
			return text.String()
		}
	}
	return "pool " + pool + " iburst\n"
}

// source is chrony's line for a server: a host, host:port, an IPv6 address, or one in brackets with a port.
func source(server string) (string, error) {
	host, port := server, ""
	if _, err := netip.ParseAddr(server); err != nil && strings.ContainsAny(server, ":[") {
		if host, port, err = net.SplitHostPort(server); err != nil {
			return "", errors.Errorf("cannot use the time server %q: it must be a host or host:port", server)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return "", errors.Errorf("cannot use the time server %q: its port must be 1 to 65535", server)
		}
	}
	if a, err := netip.ParseAddr(host); (err != nil || a.Zone() != "") && !lease.Name(host) {
		return "", errors.Errorf("cannot use the time server %q: it must be a host or host:port", server)
	}
	line := "server " + host + " iburst"
	if port != "" {
		line += " port " + port
	}
	return line, nil
}
