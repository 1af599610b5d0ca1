package btrfs

import (
	"io/fs"
	"syscall"
)

func unixStat(info fs.FileInfo) (*syscall.Stat_t, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return stat, ok
}
