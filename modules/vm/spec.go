package vm

import (
	"net"
	"path/filepath"
	"regexp"

	"github.com/croft-edge/croft/modules/vm/machine"
	"github.com/croft-edge/croft/modules/vm/qemu"
	"github.com/croft-edge/croft/pkg/node"
)

// longestUser bounds a user's ID, in bytes.
const longestUser = 128

// validSerial is the syntax of disks' serial numbers: they stand in QEMU's command line.
func validSerial() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9-]{1,20}$`) }

// validDevice is the syntax of tap devices' names.
func validDevice() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,15}$`) }

// checkSpec returns Invalid for a specification that can't be carried out on any node.
func checkSpec(s node.VMSpec) error {
	if err := machine.CheckID("run", s.ID); err != nil {
		return err
	}
	bad := func(field string, value any, allowed string) error {
		return node.Errorf(node.Invalid, "cannot run VM %s: %s is %.80v, must be %s", s.ID, field, value, allowed)
	}
	const mib = 1 << 20
	switch {
	case len(s.User) == 0 || len(s.User) > longestUser:
		return bad("User", s.User, "1 to 128 bytes")
	case s.CPU == 0 || s.CPU > mostCPU:
		return bad("CPU", s.CPU, "1 to 255 cores")
	case s.Memory < leastMemory || s.Memory%mib != 0 || s.Memory > 1<<46:
		return bad("Memory", s.Memory, "a multiple of 1 MiB from 16 MiB to 64 TiB, in bytes")
	case !filepath.IsAbs(s.Kernel):
		return bad("Kernel", s.Kernel, "an absolute path")
	case s.Initrd != "" && !filepath.IsAbs(s.Initrd):
		return bad("Initrd", s.Initrd, "an absolute path, or empty")
	case len(s.Disks) > mostDisks:
		return bad("the number of Disks", len(s.Disks), "at most 8")
	case len(s.Config) > longestConfig:
		return bad("the length of Config", len(s.Config), "at most 4 MiB")
	}
	serials := map[string]bool{configSerial: true}
	for _, d := range s.Disks {
		if !filepath.IsAbs(d.Path) {
			return bad("a disk's Path", d.Path, "absolute")
		}
		if !validSerial().MatchString(d.Serial) || serials[d.Serial] {
			return bad("a disk's Serial", d.Serial, "1 to 20 letters, digits and dashes, another one for each disk, and not "+configSerial)
		}
		serials[d.Serial] = true
	}
	if err := checkTap(s, bad); err != nil {
		return err
	}
	if err := qemu.CheckArguments(s.ID, s.Arguments); err != nil {
		return err
	}
	return node.Claim{Hash: s.Hash, AdoptUnlabelled: s.AdoptUnlabelled}.Valid("run VM " + s.ID)
}

func checkTap(s node.VMSpec, bad func(field string, value any, allowed string) error) error {
	if s.Tap == (node.VMTap{}) {
		return nil
	}
	mac, err := net.ParseMAC(s.Tap.MAC)
	switch {
	case !validDevice().MatchString(s.Tap.Device):
		return bad("Tap.Device", s.Tap.Device, "1 to 15 letters, digits, dots, dashes and underscores")
	case !filepath.IsAbs(s.Tap.Namespace):
		return bad("Tap.Namespace", s.Tap.Namespace, "an absolute path")
	case err != nil || len(mac) != 6 || mac[0]&1 != 0 || mac.String() != s.Tap.MAC:
		return bad("Tap.MAC", s.Tap.MAC, "an address of one interface, such as 02:00:00:00:00:0a")
	}
	return nil
}
