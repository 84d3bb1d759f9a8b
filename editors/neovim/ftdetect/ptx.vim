autocmd BufRead,BufNewFile *.ptx setfiletype ptx
