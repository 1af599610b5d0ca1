// Package atomicfile writes files whole: a name always holds the old content
// or the new one, also after a power cut, never a mixture.
//
// The order is: write a temporary file, fsync it, rename it over the name,
// fsync the folder. Only the last makes the rename durable; a batch shares it.
// Every step passes a Hook, so that tests can stop or fail at each of them.
package atomicfile
