package main

import (
	"bufio"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/guest"
)

// serveConsole answers lines on the console: ping with pong, hostname with the machine's name, echo with its text.
func (g *guestMachine) serveConsole() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command, text, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if g.hung.Load() {
			return
		}
		switch command {
		case "":
		case "ping":
			os.Stdout.WriteString("pong\n")
		case "hostname":
			name, _ := os.Hostname()
			os.Stdout.WriteString(name + "\n")
		case "echo":
			os.Stdout.WriteString(text + "\n")
		default:
			os.Stdout.WriteString("unknown command " + command + ": ping, hostname or echo TEXT\n")
		}
	}
}

// watchPower turns the machine off when its power button is pressed.
func (g *guestMachine) watchPower() {
	guest.WatchPower(func() {
		switch {
		case g.hung.Load():
		case g.deaf.Load():
			say("power button ignored")
		default:
			say("power button: off")
			stop(unix.LINUX_REBOOT_CMD_POWER_OFF)
		}
	}, func(err error) { say("%v", err) })
}
