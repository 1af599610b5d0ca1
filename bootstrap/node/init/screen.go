package main

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/bootstrap/node/init/console"
	"github.com/croft-edge/croft/bootstrap/node/init/network"
	"github.com/croft-edge/croft/internal/guest"
	"github.com/croft-edge/croft/internal/guest/service"
)

const (
	stateSocket = "/run/croft/state.sock"
	// screenAt is where the screen is drawn.
	screenAt = "/dev/tty1"
	// quietKernel is the level of the kernel's messages that come over the screen: emergencies, and what comes before them.
	quietKernel = "3"
	shellName   = "shell"
)

// showScreen shows the node on the machine's screen and on its serial line. net is nil for a machine without a network; trial tells that this
// boot is an image's trial.
func (m *machine) showScreen(ctx context.Context, net *network.Network, trial bool) {
	terminals := []console.Terminal{{Path: screenAt}}
	for _, name := range consoles("/sys") {
		if strings.HasPrefix(name, "ttyS") || strings.HasPrefix(name, "hvc") {
			terminals = append(terminals, console.Terminal{Path: "/dev/" + name, Lines: true})
		}
	}
	actions := make(chan console.Action, len(terminals))
	m.keep(ctx, "console", func(ctx context.Context) error {
		err := console.Run(ctx, console.Config{
			Terminals: terminals, View: func() console.View { return m.view(net, trial) }, Node: m.node,
			Logs: m.lastLines, Shell: m.settings.Node.Shell || m.recovery(), Actions: actions, Log: m.logger(),
		})
		return err
	})
	m.keep(ctx, "console's actions", func(ctx context.Context) error {
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case a := <-actions:
				m.act(a)
			}
		}
	})
	// From now on the screen is the console's: messages go to the serial line, if there is one, and to the log.
	m.showOn(serialConsole(terminals))
	_ = os.WriteFile("/proc/sys/kernel/printk", []byte(quietKernel), 0o644) // messages would only stand on the screen for a while
}

// consoles are the kernel's consoles.
func consoles(sys string) []string {
	return strings.Fields(guest.ReadText(filepath.Join(sys, "class/tty/console/active")))
}

// serialConsole is where messages go once the screen is drawn: the serial line that the kernel's console is.
func serialConsole(terminals []console.Terminal) *os.File {
	for _, t := range terminals {
		if !t.Lines {
			continue
		}
		if f, err := os.OpenFile(t.Path, os.O_WRONLY|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0); err == nil {
			return f
		}
	}
	return nil
}

// act does what somebody at a terminal has asked for.
func (m *machine) act(a console.Action) {
	switch a.Kind {
	case console.Reboot:
		m.power.end("somebody at "+a.Terminal+" restarts the machine", unix.LINUX_REBOOT_CMD_RESTART)
	case console.PowerOff:
		m.power.end("somebody at "+a.Terminal+" switches the machine off", unix.LINUX_REBOOT_CMD_POWER_OFF)
	case console.Shell:
		m.shell(a)
	}
}

// shell runs a shell on a terminal, until it ends.
func (m *machine) shell(a console.Action) {
	s, err := m.runner.Start(service.Spec{
		Name: shellName, Command: []string{"/bin/sh", "-l"}, Env: []string{"TERM=linux"}, Terminal: a.Terminal,
	})
	if err != nil {
		m.say("%v", err)
		a.Done()
		return
	}
	go func() {
		defer a.Done()
		for s.State().Ends == 0 {
			<-after(lookPause)
		}
		m.runner.Stop(shellName)
	}()
}

// lastLines are the last lines of a program's log.
func (m *machine) lastLines(program string, n int) []string {
	if s := m.runner.Service(program); s != nil {
		return s.Log().Last(n)
	}
	return nil
}

// view is what init knows of the machine now.
func (m *machine) view(net *network.Network, trial bool) console.View {
	v := console.View{
		Now: time.Now(), Uptime: time.Duration(guest.UptimeSeconds() * float64(time.Second)), Kernel: guest.ReadText("/proc/sys/kernel/osrelease"),
		Image:    console.Image{Version: m.version, Slot: m.slot, Trial: trial && !m.ready()},
		Diskless: m.disks.Load().diskless(), Services: m.runner.States(), Memory: guest.MemoryBytes(), Free: guest.AvailableBytes(), Load: load("/proc/loadavg"),
	}
	for _, note := range m.disks.Load().notes() {
		if path, why, left := strings.Cut(note, ": left alone: "); left {
			v.Left = append(v.Left, console.LeftDisk{Path: path, Why: why})
		}
	}
	for _, p := range m.current() {
		switch p.about {
		case aboutSettings:
			v.Refused = append(v.Refused, p.text)
		case aboutUpgrade:
			v.Image.Failed = p.text
		default:
			v.Problems = append(v.Problems, console.Problem{Severity: console.Warning, Name: p.about, Detail: p.text})
		}
	}
	if net == nil {
		return v
	}
	is := net.State()
	v.Door = doorAt(guest.ReadText(doorFile), is)
	for _, i := range is.Interfaces {
		one := console.Interface{Name: i.Name, Carrier: i.Carrier, Error: i.Problem}
		for _, a := range i.Addresses {
			if !a.Addr().IsLinkLocalUnicast() {
				one.Addresses = append(one.Addresses, a.String())
			}
		}
		v.Interfaces = append(v.Interfaces, one)
	}
	if is.Problem != "" {
		v.Problems = append(v.Problems, console.Problem{Severity: console.Warning, Name: "resolver", Detail: is.Problem})
	}
	return v
}

// doorAt is the address at which users reach the node, of the one that croftd's door listens at: for all of the machine's addresses its first.
// Empty while croftd hasn't written it, or there is none.
func doorAt(listens string, is network.State) string {
	at, err := netip.ParseAddrPort(listens)
	if err != nil || !at.Addr().IsUnspecified() {
		return listens
	}
	for _, i := range is.Interfaces {
		for _, a := range i.Addresses {
			if !a.Addr().IsLinkLocalUnicast() {
				return netip.AddrPortFrom(a.Addr(), at.Port()).String()
			}
		}
	}
	return ""
}

// load are the averages of the machine's load over 1, 5 and 15 minutes; zeros if the kernel doesn't say.
func load(file string) (out [3]float64) {
	for i, text := range strings.Fields(guest.ReadText(file)) {
		if i < len(out) {
			out[i], _ = strconv.ParseFloat(text, 64)
		}
	}
	return out
}
