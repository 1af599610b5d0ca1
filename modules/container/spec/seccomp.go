package spec

import (
	"runtime"
	"slices"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// btrfsType is the type of btrfs's ioctls: bits 8 to 15 of a request.
const btrfsType = unix.FICLONE >> 8 & 0xff

const copyRange = "copy_file_range"

// seccompProfile is containerd's default one for the capabilities of s, without
// the ioctls of btrfs: with them a tenant whose volume is a subvolume could make
// snapshots and subvolumes that no quota counts. Copying by reference goes with
// them: each copy of a block takes a line in a tree that counts for no quota, about
// as large as the block's counted size, so that others wouldn't get the space they
// were promised. Programs copy the bytes then; copy_file_range, which does the same
// unasked, looks as if the kernel didn't have it, which each program can do without.
//
// It knows the machine's own calls only: the first one of another architecture,
// such as those of 32 bit programs, ends the process. There socketcall opens sockets
// of any family, with arguments in memory that no filter sees.
func seccompProfile(s *specs.Spec) *specs.LinuxSeccomp {
	profile := seccomp.DefaultProfile(s)
	profile.Architectures = ownArchitecture()
	for i := range profile.Syscalls {
		call := &profile.Syscalls[i]
		if call.Action == specs.ActAllow && len(call.Args) == 0 {
			call.Names = slices.DeleteFunc(call.Names, func(name string) bool { return name == "ioctl" || name == copyRange })
		}
	}
	profile.Syscalls = slices.DeleteFunc(profile.Syscalls, func(c specs.LinuxSyscall) bool { return len(c.Names) == 0 })
	profile.Syscalls = append(profile.Syscalls, ioctlRules()...)
	unknown := uint(unix.ENOSYS)
	profile.Syscalls = append(profile.Syscalls, specs.LinuxSyscall{Names: []string{copyRange}, Action: specs.ActErrno, ErrnoRet: &unknown})
	return profile
}

// ownArchitecture is this machine's; none leaves it to the runtime, which takes the
// machine's own, too.
func ownArchitecture() []specs.Arch {
	own := map[string]specs.Arch{
		"amd64": specs.ArchX86_64, "arm64": specs.ArchAARCH64, "riscv64": specs.ArchRISCV64, "s390x": specs.ArchS390X, "ppc64le": specs.ArchPPC64LE,
	}
	if arch, known := own[runtime.GOARCH]; known {
		return []specs.Arch{arch}
	}
	return nil
}

// ioctlRules allow each ioctl whose type isn't btrfs's.
//
// A rule can say "these bits are equal", not "these bits aren't", and can't
// compare one argument twice. But a type differs from btrfs's exactly when at
// least one of its 8 bits does: so there is a rule for each bit, which allows
// requests whose bit is the other one, and a request that matches none is btrfs's.
//
// The kernel takes the low 32 bits of a request only, and some C libraries fill
// the others with its sign: so these are left out of each comparison.
func ioctlRules() []specs.LinuxSyscall {
	const request = 1 // the argument's place
	var out []specs.LinuxSyscall
	for bit := range 8 {
		mask := uint64(1) << (8 + bit)
		out = append(out, specs.LinuxSyscall{
			Names: []string{"ioctl"}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Index: request, Value: mask, ValueTwo: ^uint64(btrfsType<<8) & mask, Op: specs.OpMaskedEqual}},
		})
	}
	return out
}
