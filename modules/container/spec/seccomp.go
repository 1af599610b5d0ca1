package spec

import (
	"slices"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// btrfsType is the type of btrfs's ioctls: bits 8 to 15 of a request.
const btrfsType = unix.FICLONE >> 8 & 0xff

// seccompProfile is containerd's default one for the capabilities of s, without
// the ioctls of btrfs: with them a tenant whose volume is a subvolume could make
// snapshots and subvolumes that no quota counts. Copying by reference stays: its
// three requests have btrfs's type, but are of every file system.
func seccompProfile(s *specs.Spec) *specs.LinuxSeccomp {
	profile := seccomp.DefaultProfile(s)
	for i := range profile.Syscalls {
		call := &profile.Syscalls[i]
		if call.Action == specs.ActAllow && len(call.Args) == 0 {
			call.Names = slices.DeleteFunc(call.Names, func(name string) bool { return name == "ioctl" })
		}
	}
	profile.Syscalls = slices.DeleteFunc(profile.Syscalls, func(c specs.LinuxSyscall) bool { return len(c.Names) == 0 })
	profile.Syscalls = append(profile.Syscalls, ioctlRules()...)
	return profile
}

// ioctlRules allow each ioctl whose type isn't btrfs's, and three of btrfs's.
//
// A rule can say "these bits are equal", not "these bits aren't", and can't
// compare one argument twice. But a type differs from btrfs's exactly when at
// least one of its 8 bits does: so there is a rule for each bit, which allows
// requests whose bit is the other one, and what matches none of them is btrfs's.
//
// The kernel takes the low 32 bits of a request only, and some C libraries fill
// the others with its sign: so these are left out of each comparison.
func ioctlRules() []specs.LinuxSyscall {
	const request = 1 // the argument's place
	var out []specs.LinuxSyscall
	allow := func(mask, value uint64) {
		out = append(out, specs.LinuxSyscall{
			Names: []string{"ioctl"}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Index: request, Value: mask, ValueTwo: value, Op: specs.OpMaskedEqual}},
		})
	}
	for bit := range 8 {
		mask := uint64(1) << (8 + bit)
		allow(mask, ^uint64(btrfsType<<8)&mask)
	}
	for _, whole := range []uint64{unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE} {
		allow(0xffffffff, whole)
	}
	return out
}
