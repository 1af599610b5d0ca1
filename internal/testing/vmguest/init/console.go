package main

import (
	"bufio"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// serveConsole answers lines on the console: ping with pong, hostname with the machine's name, echo with its text.
func (g *guest) serveConsole() {
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

// Members of the kernel's struct input_event.
const (
	eventBytes = 24
	keyEvent   = 1   // EV_KEY
	powerKey   = 116 // KEY_POWER
	pressed    = 1
)

// watchPower turns the machine off when its power button is pressed.
func (g *guest) watchPower() {
	devices, _ := filepath.Glob("/sys/class/input/event*")
	for _, at := range devices {
		if readText(at+"/device/name") == "Power Button" {
			go g.watchButton("/dev/input/" + filepath.Base(at))
		}
	}
}

func (g *guest) watchButton(device string) {
	f, err := os.Open(device)
	if err != nil {
		say("cannot watch the power button: %v", err)
		return
	}
	defer f.Close()
	event := make([]byte, eventBytes)
	for {
		if _, err := f.Read(event); err != nil {
			say("cannot watch the power button: %v", err)
			return
		}
		kind, code, value := binary.LittleEndian.Uint16(event[16:]), binary.LittleEndian.Uint16(event[18:]), binary.LittleEndian.Uint32(event[20:])
		if kind != keyEvent || code != powerKey || value != pressed || g.hung.Load() {
			continue
		}
		if g.deaf.Load() {
			say("power button ignored")
			continue
		}
		say("power button: off")
		stop(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
}
