package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// openPort opens the virtual machine's port of that name. One process at a time has it; others wait.
func openPort(name string) (*os.File, error) {
	names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
	if err != nil {
		return nil, err
	}
	for _, file := range names {
		text, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(text)) != name {
			continue
		}
		for {
			port, err := os.OpenFile("/dev/"+filepath.Base(filepath.Dir(file)), os.O_RDWR, 0)
			if !errors.Is(err, unix.EBUSY) {
				return port, err
			}
			<-time.After(20 * time.Millisecond)
		}
	}
	return nil, fmt.Errorf("cannot find the port %s of the virtual machine: it has %v", name, names)
}
