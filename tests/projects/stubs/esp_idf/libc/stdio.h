typedef struct stub_file FILE;
extern FILE *stdout;
int fputs(const char *text, FILE *file);
