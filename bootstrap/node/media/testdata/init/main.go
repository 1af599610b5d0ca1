// Command init is process 1 of the machines that the boot tests of package media start: it prints the kernel's command
// line and what is in the folder /image, and switches the machine off.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"syscall"
)

func main() {
	_ = os.MkdirAll("/proc", 0o755)
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("cannot mount /proc:", err)
	}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		fmt.Println("cannot read the command line:", err)
	}
	fmt.Printf("\nCOMMANDLINE: %s", line)
	entries, _ := os.ReadDir("/image")
	for _, e := range entries {
		content, err := os.ReadFile("/image/" + e.Name())
		if err != nil {
			fmt.Println("cannot read a file:", err)
		}
		info, _ := e.Info()
		fmt.Printf("IMAGE: %s %v %x\n", e.Name(), info.Mode(), sha256.Sum256(content))
	}
	fmt.Println("END")
	_ = syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}
