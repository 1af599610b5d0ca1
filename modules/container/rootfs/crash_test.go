package rootfs

func crashInside() int { return 1 }
